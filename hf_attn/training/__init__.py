"""The training loop, and models trained side by side."""
