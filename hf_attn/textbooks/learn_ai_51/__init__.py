"""Learn AI 5.1, attention mechanisms: claims, and what measures them."""
