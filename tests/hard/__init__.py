"""Attacks that take minutes, and what a server bears: `make test-hard`, `make soak`, docs/reliability.md."""
