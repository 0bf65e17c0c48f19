"""The Hugging Face Hub: push, pull, verify, data sets, Spaces, and models of others."""
