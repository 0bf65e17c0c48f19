"""Files, text and locks: nothing of the field."""
