"""What people run on a problem of their own: presets and drivers around `search`, no new method."""
