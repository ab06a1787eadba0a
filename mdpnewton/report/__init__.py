"""How results look: figures, tables, progress; it computes nothing that a result depends on."""
