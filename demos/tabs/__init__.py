"""The tabs: a folder each."""
