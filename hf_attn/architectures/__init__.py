"""Which model learns which kind of task: model families, presets, settings, and the memory they need."""
