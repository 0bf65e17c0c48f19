"""Transformers 1: claims, and what measures them."""
