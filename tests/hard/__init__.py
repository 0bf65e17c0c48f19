"""Attacks: what is promised of kills, crowds, odd input and strangers' files, each by `python -m`."""
