"""Words and sentences that experiments and the Language tab use."""
