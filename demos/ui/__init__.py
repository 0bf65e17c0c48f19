"""How everything looks: styles, scripts, texts, boards."""
