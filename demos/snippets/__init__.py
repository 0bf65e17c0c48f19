"""Copy as Python: the lines behind what is shown."""
