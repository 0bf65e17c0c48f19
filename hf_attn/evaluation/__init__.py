"""How good a model is on examples that training never saw, and where it fails."""
