"""Directions that keep a sampled search exploring."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import instance, number
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.methods.first_order import RandomDirection
from mdpnewton.solve import SolveReport

SCALES = ("scale", "log_sigma")  # leaves of `w` that hold standard deviations
NOTHING = 1e-6  # relative difference below which values are the same but for round-off


class Exploring(Method):
    """Another method's direction, as long as there is one, with patience for standard deviations.

    A smaller sigma earns more at once, and learns less from then on: a search that follows the
    gradient ceases to explore long before it has arrived. So the standard deviations go only a
    share of the way. Where all advantages are zero, as in a task whose first reward has not been
    found, the direction is drawn at random: a search that stays would not find it either. But if U
    is larger than `nothing` there, every action is as good as can be, and the search stays.

    Attributes:
        method: Method that gives the direction.
        share: Share of their way that the standard deviations go, from 0 to 1.
        nothing: Objective U of a policy that has found nothing.
    """

    method: Method
    share: float = 0.3
    nothing: float = math.inf

    def __check_init__(self) -> None:
        instance("Exploring", "method", self.method, Method, "pass a method, as `Steepest()`")
        number("Exploring", "share", self.share, least=0, most=1)
        number("Exploring", "nothing", self.nothing, infinite=True)

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        pairs = at.pairs
        advantage = np.abs(np.asarray(pairs.gradient_weights)).max(initial=0.0)
        if advantage <= NOTHING * np.abs(np.asarray(pairs.value)).max(initial=0.0):
            if pairs.objective > self.nothing + NOTHING * abs(self.nothing):
                return jax.tree.map(jnp.zeros_like, at.gradient), SolveReport("none", "solved")
            return RandomDirection().direct(at)
        value, report = self.method.direct(at)
        if not isinstance(value, dict):
            return value, report
        slower = {
            name: jax.tree.map(lambda leaf: self.share * leaf, value[name])
            for name in SCALES
            if name in value
        }
        return {**value, **slower}, report
