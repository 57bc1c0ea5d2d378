"""Semi-supervised learning with Ladder Networks."""
