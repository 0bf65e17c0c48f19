"""Side-by-side speed: scripts that print a table and keep what they measured, and on what machine."""
