"""Python in the Save menu: the lines behind what is shown."""
