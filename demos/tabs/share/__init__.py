"""Share: push a checkpoint to the Hub, pull one from it."""
