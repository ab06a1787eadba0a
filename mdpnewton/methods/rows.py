"""Search directions for finite-state controllers, row by row.

The tables of a controller are rows of softmaxes, and for such rows every direction of the library
that looks at H2 or the Fisher matrix is known in closed form: with q the values of a row's choices,
pi their probabilities, V = sum pi q, m the visits of the row and lambda the offset,

    steepest             pi (q - V)
    natural              (q - V) / m
    second Gauss-Newton  (q - V) / (V + lambda m), jointly as well as by the blocks u, v and w
                         and by rows: H2 is block-diagonal, Appendix B.2
    its diagonal         (q - V) / ((V + lambda m) (1 - pi))
    EM                   log((q + lambda m) / (V + lambda m))
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from mdpnewton.checks import choice
from mdpnewton.policies.controller import Tables

PACES = ("searched", "whole", "adam")


class Earned(NamedTuple):
    """What is known about the rows of a controller at some parameters.

    Attributes:
        tables: The probabilities pi.
        values: The values q of the choices, see `Chain.earned`.
        used: The visits m of the rows, see `Chain.earned`.
        margin: The share of the range of values that the offset leaves on.
        means: V, the mean value of each row.
        gradient: The gradient of U in the tables' logits.
    """

    tables: Tables
    values: Tables
    used: Tables
    margin: float
    means: Tables
    gradient: Tables

    @property
    def ahead(self) -> Tables:
        """q - V: how much better than its row each choice is."""
        return Tables(*(q - v[..., None] for q, v in zip(self.values, self.means, strict=True)))


@dataclass(frozen=True)
class RowMethod:
    """A method for the rows of a controller: its direction, and how far the search follows it.

    Attributes:
        direction: Gives the direction, table by table.
        pace: "searched" for a step that is halved until U has risen enough; "whole" for steps of
            size 1; "adam" for the steps that Adam makes of the direction.
    """

    direction: Callable[[Earned], Tables]
    pace: str = "searched"

    def __post_init__(self) -> None:
        choice("RowMethod", "pace", self.pace, PACES)

    def direct(
        self, tables: Tables, values: Tables, used: Tables, margin: float
    ) -> tuple[Tables, Tables]:
        """The direction and the gradient, table by table; the arguments are those of `Earned`."""
        means = Tables(*(jnp.sum(p * q, axis=-1) for p, q in zip(tables, values, strict=True)))
        gradient = Tables(
            *(p * (q - v[..., None]) for p, q, v in zip(tables, values, means, strict=True))
        )
        return self.direction(Earned(tables, values, used, margin, means, gradient)), gradient


def steepest_rows(at: Earned) -> Tables:
    """The gradient."""
    return at.gradient


def natural_rows(at: Earned) -> Tables:
    """The natural gradient."""
    return _centred(Tables(*(_ratio(d, m) for d, m in zip(at.ahead, at.used, strict=True))))


def gauss_newton_rows(at: Earned) -> Tables:
    """The second Gauss-Newton direction."""
    weights = _raised(at.means, at.used, row_offset(at.means, at.used, at.margin))
    return _centred(Tables(*(_ratio(d, v) for d, v in zip(at.ahead, weights, strict=True))))


def diagonal_rows(at: Earned) -> Tables:
    """The diagonal second Gauss-Newton direction."""
    weights = _raised(at.means, at.used, row_offset(at.means, at.used, at.margin))
    ahead = Tables(
        *(jnp.where(p < 1, d / jnp.where(p < 1, 1 - p, 1.0), 0.0)
          for d, p in zip(at.ahead, at.tables, strict=True))
    )  # fmt: skip
    return Tables(*(_ratio(d, v) for d, v in zip(ahead, weights, strict=True)))


def maximization_rows(at: Earned) -> Tables:
    """The step of expectation maximisation."""
    shift = row_offset(at.values, at.used, at.margin)
    weights = _raised(at.means, at.used, shift)
    raised = (q + shift * m[..., None] for q, m in zip(at.values, at.used, strict=True))
    best = (jnp.log(_ratio(q, v, 1.0)) for q, v in zip(raised, weights, strict=True))
    return _centred(Tables(*best))


def row_offset(values: Tables, used: Tables, margin: float) -> Float[Array, ""]:
    """What is to be added to the value of a visit, so that no weight of H2 is negative.

    Minus the least value per visit of any row (of any choice of a row, for EM), and `margin` of
    their range: what adding (1 - gamma) times as much to every reward would do.
    """
    least, most = jnp.array(jnp.inf), jnp.array(-jnp.inf)
    for value, visits in zip(values, used, strict=True):
        visits = visits[..., None] if value.ndim > visits.ndim else visits
        seen = jnp.broadcast_to(visits > 0, value.shape)
        mean = value / jnp.where(visits > 0, visits, 1.0)
        least = jnp.minimum(least, jnp.min(mean, where=seen, initial=jnp.inf))
        most = jnp.maximum(most, jnp.max(mean, where=seen, initial=-jnp.inf))
    return -least + margin * (most - least)


def _raised(means: Tables, used: Tables, shift: Array) -> Tables:
    """V + lambda m of every row."""
    return Tables(*(v + shift * m for v, m in zip(means, used, strict=True)))


def _ratio(values: Array, by: Array, otherwise: float = 0.0) -> Array:
    """Rows divided by a number each; a row that is never used stays as it is."""
    reached = (by > 0)[..., None]
    return jnp.where(reached, values / jnp.where(reached, by[..., None], 1.0), otherwise)


def _centred(rows: Tables) -> Tables:
    """Without the constant of each row, which changes nothing: the direction of least norm."""
    return Tables(*(x - x.mean(axis=-1, keepdims=True) for x in rows))
