"""Train: a model learns live."""
