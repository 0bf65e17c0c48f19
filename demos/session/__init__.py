"""What belongs to one visitor, and what tabs share of it."""
