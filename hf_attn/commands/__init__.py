"""The commands of the command line, by theme."""
