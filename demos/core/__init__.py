"""What the whole app checks: limits, uploads, events."""
