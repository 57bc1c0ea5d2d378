"""Anybody's own table: read it, turn its columns into numbers, learn from it, predict, and say what to label next."""
