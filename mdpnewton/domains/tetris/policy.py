"""The policy over placements that the compiled simulator plays, and weights to start from."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.checks import choice
from mdpnewton.domains.tetris.pieces import check_size
from mdpnewton.domains.tetris.tables import FEATURES, feature_names
from mdpnewton.policies.categorical import Categorical


class AfterstatePolicy(Categorical):
    r"""$\pi(a|s;w) \propto \exp(w^\top\phi(\text{board after } a))$: Gibbs over placements.

    Section 6.5. The compiled simulator has its own code for it and adds up what a search needs. To
    the library a state is the matrix of the features after each placement that fits, one row per
    placement, and an action is the number of a row: `plain.decisions` lists both.

    Attributes:
        features: "bi" (Bertsekas and Ioffe) or "dt" (Dellacherie and Thiery).
        height: Number of rows of the board.
        width: Number of columns of the board.
    """

    features: str = eqx.field(static=True, default="bi")
    height: int = eqx.field(static=True, default=10)
    width: int = eqx.field(static=True, default=10)
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __check_init__(self) -> None:
        choice("AfterstatePolicy", "features", self.features, FEATURES)
        check_size("AfterstatePolicy", self.height, self.width)

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(feature_names(self.features, self.width))

    def logits(
        self, w: Float[Array, " n"], state: Float[Array, "placements n"]
    ) -> Float[Array, " placements"]:
        """The score of each placement."""
        return state @ w

    def initial_parameters(self) -> Float[Array, " n"]:
        """The weights of `soft_start`."""
        return jnp.asarray(soft_start(self))


def soft_start(policy: AfterstatePolicy) -> np.ndarray:
    """Weights of a policy that plays badly but not blindly: every feature has something to say.

    From zeros, and from weights that make the policy deterministic, second-order methods get
    stuck: see docs/tetris.md.
    """
    if policy.features == "dt":
        start = np.full(policy.size, -0.3)
        start[[1, 8]] = 0.0  # eroded cells and diversity, which are good
        return start
    start = np.zeros(policy.size)
    start[policy.width : 2 * policy.width - 1] = -0.3
    start[-1] = -1.0
    return start
