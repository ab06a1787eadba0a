"""How tables look."""

from rich.table import Table


def new_table(title: str, first: str, *numbers: str) -> Table:
    """A table with left-aligned names in the first column and right-aligned numbers in the rest."""
    table = Table(title=title)
    table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    return table
