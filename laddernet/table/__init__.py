"""A user's table: read it, convert its columns to numbers, fit a classifier, predict, and suggest rows to label."""
