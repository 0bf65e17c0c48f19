"""What was read means: heads removed, their roles, their theory, position encodings."""
