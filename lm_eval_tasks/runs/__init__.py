"""What runs left on disk: lm-eval's results and samples, and answers that wait to be judged."""
