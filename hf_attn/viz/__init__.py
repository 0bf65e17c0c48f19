"""Pictures of attention: images, charts, and the interactive view."""
