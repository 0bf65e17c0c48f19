"""Duel: models that learn the same task side by side."""
