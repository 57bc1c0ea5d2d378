"""Training: configurations, the compiled step, the loop, checkpoints, the folder of a run."""
