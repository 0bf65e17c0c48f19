"""Explore: every head of a checkpoint, and the answer without it."""
