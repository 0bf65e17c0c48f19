"""Links that carry a view: written, checked, opened."""
