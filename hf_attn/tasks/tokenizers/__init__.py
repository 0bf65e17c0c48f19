"""Tokenizers: of a task's symbols, and those trained on text."""
