"""Reading a model: attention maps, one head's numbers, and interventions."""
