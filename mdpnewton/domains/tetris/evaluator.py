"""Tetris as an evaluator of the library: matrices that the kernel accumulates."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.checks import choice
from mdpnewton.domains.tetris.pieces import check_size
from mdpnewton.domains.tetris.rules import Estimate, RecurrentState, Rule
from mdpnewton.domains.tetris.simulate import CAP, FEATURES, estimate, play
from mdpnewton.domains.tetris.tables import feature_names
from mdpnewton.evaluation import AccumulatedMatrices, Evaluator


@dataclass(frozen=True)
class AfterstatePolicy:
    """pi(a|s; w) ~ exp(w' phi(board after a)): Gibbs over placements, Section 6.5.

    It lives in the compiled simulator, and has no `log_prob` of its own.

    Attributes:
        features: "bi" or "dt".
        height: Rows.
        width: Columns.
    """

    features: str = "bi"
    height: int = 10
    width: int = 10

    def __post_init__(self) -> None:
        choice("AfterstatePolicy", "features", self.features, FEATURES)
        check_size("AfterstatePolicy", self.height, self.width)

    @property
    def size(self) -> int:
        """How many weights."""
        return len(feature_names(self.features, self.width))


class TetrisEvaluator(Evaluator):
    """Gradient, H2 and Fisher matrix of an `AfterstatePolicy` from whole games.

    Attributes:
        rule: How decisions are valued.
        games: For an evaluation.
        line_games: For the objective alone, which line searches ask for.
        threads: At most so many at once; results don't depend on it.
        cap: Pieces after which a game is stopped.
        pieces: How many were placed so far.
        capped: How many games were stopped so far.
    """

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        games: int = 1000,
        line_games: int = 1000,
        threads: int | None = None,
        cap: int = CAP,
    ):
        self.rule: Rule = RecurrentState() if rule is None else rule
        self.games, self.line_games, self.threads, self.cap = games, line_games, threads, cap
        self.pieces = self.capped = 0

    def evaluate(
        self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]
    ) -> AccumulatedMatrices:
        """The matrices from `games` games at `w`."""
        found = estimate(
            np.asarray(w), self.rule, games=self.games, seed=seed_of(key), **self._board(policy)
        )
        self.pieces += int(found.pieces.sum())
        self.capped += int(found.capped.sum())
        return evaluation_of(found)

    def objective(self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]) -> float:
        """Mean lines of `line_games` other games, the same ones for every `w`."""
        seed = seed_of(jax.random.fold_in(key, 1))
        found = play(
            np.asarray(w), policy="gibbs", games=self.line_games, seed=seed, **self._board(policy)
        )
        self.pieces += int(found.pieces.sum())
        self.capped += int(found.capped.sum())
        return found.mean

    def _board(self, policy: AfterstatePolicy) -> dict[str, Any]:
        return {
            "features": policy.features,
            "height": policy.height,
            "width": policy.width,
            "threads": self.threads,
            "cap": self.cap,
        }


def evaluation_of(found: Estimate) -> AccumulatedMatrices:
    """An estimate as the library's evaluation."""
    matrices = {"H2": jnp.asarray(found.h2), "fisher": jnp.asarray(found.fisher)}
    if found.h1 is not None:
        matrices |= {"H1": jnp.asarray(found.h1), "A1+A2": jnp.asarray(found.h1 + found.h2)}
    return AccumulatedMatrices(
        gradient=jnp.asarray(found.gradient),
        matrices=matrices,
        objective=found.mean,
        objective_error=found.stderr,
        decisions=float(found.pieces.mean()),
    )


def seed_of(key: Any) -> int:
    """A seed of the simulator for a key."""
    return int(jax.random.bits(key, dtype=jnp.uint32))
