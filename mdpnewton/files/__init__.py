"""Everything that is read from or written to disk; it builds no simulator and trains nothing."""
