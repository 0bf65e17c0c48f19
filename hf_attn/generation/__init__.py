"""How a model writes: greedy, sampling, beam search."""
