"""Chapter 8: claims, and what measures them."""
