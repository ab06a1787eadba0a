"""What is fixed in a search for controllers, and how far its steps go."""

from typing import Any

import equinox as eqx

from mdpnewton.methods.rows import RowMethod

ARMIJO, SHORTEST = 1e-4, 1e-10


class RowRules(eqx.Module):
    """The settings of a search with a method for rows.

    Attributes:
        rows: The method.
        margin: Share of the range of values that the offset leaves on.
        learning_rate: Learning rate of Adam.
    """

    rows: RowMethod = eqx.field(static=True)
    margin: float = eqx.field(static=True, default=0.5)
    learning_rate: float = eqx.field(static=True, default=0.1)

    @property
    def optimizer(self) -> Any:
        """Adam, or None for a method with its own direction."""
        if self.rows.pace != "adam":
            return None
        import optax  # a fifth of a second, which few need

        return optax.adam(self.learning_rate)
