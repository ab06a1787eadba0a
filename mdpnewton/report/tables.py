"""The look of the tables."""

from rich.table import Table


def new_table(title: str, first: str, *numbers: str) -> Table:
    """A table with names on the left in the first column and numbers on the right in the rest."""
    table = Table(title=title)
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
