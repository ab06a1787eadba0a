"""How results look: figures, tables, progress; no result depends on what is computed here."""
