"""Where benchmarks get their data from."""
