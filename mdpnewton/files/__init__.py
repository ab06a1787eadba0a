"""Everything that is read from or written to disk; nothing here builds a simulator or trains."""
