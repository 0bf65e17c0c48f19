"""What ships to the Hub with a checkpoint: flat files that import torch, transformers and each other."""
