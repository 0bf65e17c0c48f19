"""Tasks on people's own tables, texts and data sets, and how those are read."""
