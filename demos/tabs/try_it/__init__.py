"""Try: an input of your own, and how the answer was written."""
