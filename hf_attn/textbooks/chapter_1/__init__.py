"""Chapter 1: claims, and what measures them."""
