"""The notebook: its printed numbers."""
