"""Many runs: every model, every number of labels, many seeds."""
