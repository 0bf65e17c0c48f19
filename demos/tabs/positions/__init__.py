"""Positions: position encodings, and what lies beyond the trained length."""
