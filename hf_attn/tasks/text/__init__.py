"""Tasks on real text that comes with Python packages: a file each."""
