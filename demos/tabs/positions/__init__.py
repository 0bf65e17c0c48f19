"""Positions: how places are encoded, and what lies beyond the trained length."""
