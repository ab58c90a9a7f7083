"""What ``lm-eval-tasks`` does, one module a command."""
