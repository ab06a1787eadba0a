"""A guard for directions that may take a standard deviation to zero."""

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import PyTree

from mdpnewton.checks import instance, number
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.solve import SolveReport


class Guarded(Method):
    """Another method's direction, cut so that a unit step at most doubles or halves a sigma.

    Without it one step may take an entry of L to zero or through it. Where it cuts, the report's
    solver says so. Neither the second Gauss-Newton method nor EM can do that: they need none.

    Attributes:
        method: Method that gives the direction.
        size: Size of the step that is going to be taken, above 0.
    """

    method: Method
    size: float = 1.0

    def __check_init__(self) -> None:
        instance("Guarded", "method", self.method, Method, "pass a method, as `Steepest()`")
        number("Guarded", "size", self.size, above=0)

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        value, report = self.method.direct(at)
        L = at.w["precision_factor"]
        wanted = L + self.size * value["precision_factor"]
        low, high = jnp.minimum(L / 2, 2 * L), jnp.maximum(L / 2, 2 * L)
        inside = jnp.clip(wanted, low, high)
        if bool((inside == wanted).all()):
            return value, report
        cut = {**value, "precision_factor": (inside - L) / self.size}
        return cut, replace(report, solver=f"{report.solver}, cut")
