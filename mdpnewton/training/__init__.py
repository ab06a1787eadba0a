"""What people run on their own problems: presets and drivers around `search`, no new methods."""
