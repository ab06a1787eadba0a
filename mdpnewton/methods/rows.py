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

import jax.numpy as jnp
from jaxtyping import Array, Float

from mdpnewton.policies.controller import Tables

ROW_METHODS = (
    "second_gauss_newton",
    "block_second_gauss_newton",
    "diagonal_second_gauss_newton",
    "expectation_maximization",
    "natural",
    "steepest",
    "adam",
)


def row_direction(
    method: str, tables: Tables, values: Tables, used: Tables, margin: float
) -> tuple[Tables, Tables]:
    """The direction of a method, and the gradient, table by table.

    Args:
        method: One of `ROW_METHODS`.
        tables: The probabilities.
        values: q, see `Chain.earned`.
        used: m, the same.
        margin: Share of the range of values that the offset leaves on, see `row_offset`.
    """
    means = Tables(*(jnp.sum(p * q, axis=-1) for p, q in zip(tables, values, strict=True)))
    gradient = Tables(
        *(p * (q - v[..., None]) for p, q, v in zip(tables, values, means, strict=True))
    )
    if method in ("steepest", "adam"):
        return gradient, gradient
    ahead = Tables(*(q - v[..., None] for q, v in zip(values, means, strict=True)))
    if method == "natural":
        scaled = Tables(*(_ratio(d, m) for d, m in zip(ahead, used, strict=True)))
        return _centred(scaled), gradient
    entries = method == "expectation_maximization"
    shift = row_offset(values if entries else means, used, margin)
    weights = Tables(*(v + shift * m for v, m in zip(means, used, strict=True)))
    if entries:
        raised = (q + shift * m[..., None] for q, m in zip(values, used, strict=True))
        best = (jnp.log(_ratio(q, v, 1.0)) for q, v in zip(raised, weights, strict=True))
        return _centred(Tables(*best)), gradient
    if method == "diagonal_second_gauss_newton":
        ahead = Tables(
            *(jnp.where(p < 1, d / jnp.where(p < 1, 1 - p, 1.0), 0.0)
              for d, p in zip(ahead, tables, strict=True))
        )  # fmt: skip
        return Tables(*(_ratio(d, v) for d, v in zip(ahead, weights, strict=True))), gradient
    return _centred(Tables(*(_ratio(d, v) for d, v in zip(ahead, weights, strict=True)))), gradient


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


def _ratio(values: Array, by: Array, otherwise: float = 0.0) -> Array:
    """Rows divided by a number each; a row that is never used stays as it is."""
    reached = (by > 0)[..., None]
    return jnp.where(reached, values / jnp.where(reached, by[..., None], 1.0), otherwise)


def _centred(rows: Tables) -> Tables:
    """Without the constant of each row, which changes nothing: the direction of least norm."""
    return Tables(*(x - x.mean(axis=-1, keepdims=True) for x in rows))
