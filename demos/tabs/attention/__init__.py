"""Attention: one cell of one map taken apart."""
