"""The checkpoint folder: save, load, check, its card and its training record."""
