"""Tetris as an evaluator of the library: matrices that the kernel accumulates."""

from copy import copy
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.checks import choice, whole
from mdpnewton.domains.tetris.policy import AfterstatePolicy
from mdpnewton.domains.tetris.rules import Estimate, RecurrentBoard, Rule
from mdpnewton.domains.tetris.simulate import CAP, FARTHEST, estimate, play
from mdpnewton.evaluation import AccumulatedMatrices, Evaluator, State
from mdpnewton.plain import entries
from mdpnewton.simulators import DivergedError


class TetrisEvaluator(Evaluator):
    """Gradient and matrices, or their diagonals, of an `AfterstatePolicy` from whole games.

    Attributes:
        rule: Rule by which decisions are valued.
        games: Number of games per evaluation.
        line_games: Number of games for the objective alone, which line searches ask for.
        threads: Maximum number of threads; results don't depend on it.
        cap: Number of pieces after which a game is stopped.
        diagonal: Whether only the diagonals of the matrices are accumulated, which is cheaper and
            enough for the solver `Diagonal`.
        pieces: Number of pieces placed so far.
        capped: Number of games stopped so far.
    """

    def __init__(
        self,
        rule: Rule | None = None,
        *,
        games: int = 1000,
        line_games: int = 1000,
        threads: int | None = None,
        cap: int = CAP,
        diagonal: bool = False,
    ):
        self.rule: Rule = RecurrentBoard() if rule is None else rule
        self.games, self.line_games, self.threads, self.cap = games, line_games, threads, cap
        self.diagonal: bool = choice("TetrisEvaluator", "diagonal", diagonal, (False, True))
        self.pieces = self.capped = 0

    def evaluate(
        self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]
    ) -> AccumulatedMatrices:
        """The matrices from `games` games at `w`."""
        found = estimate(
            within_reach(w),
            self.rule,
            games=self.games,
            seed=seed_of(key),
            diagonal=self.diagonal,
            **self._board(policy),
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

    def state(self) -> State:
        """How many pieces were played, and how many games were capped."""
        return {"pieces": self.pieces, "capped": self.capped}

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call, found = "TetrisEvaluator.restored", copy(self)
        pieces, capped = entries(call, state, "pieces", "capped")
        found.pieces = whole(call, "pieces", pieces)
        found.capped = whole(call, "capped", capped)
        return found

    def _board(self, policy: AfterstatePolicy) -> dict[str, Any]:
        return {
            "features": policy.features,
            "height": policy.height,
            "width": policy.width,
            "threads": self.threads,
            "cap": self.cap,
        }


def evaluation_of(found: Estimate) -> AccumulatedMatrices:
    """An estimate as the library's evaluation: matrices, or diagonals where there are no more."""
    h1, h2, fisher = found.h1, found.h2, found.fisher
    if h2 is None or fisher is None:
        h1, h2, fisher = found.h1_diagonal, found.h2_diagonal, found.fisher_diagonal
    matrices = {"H2": h2, "fisher": fisher}
    if h1 is not None:
        matrices |= {"H1": h1, "A1+A2": h1 + h2}
    return AccumulatedMatrices(
        gradient=jnp.asarray(found.gradient),
        matrices={name: jnp.asarray(entries) for name, entries in matrices.items()},
        objective=found.mean,
        objective_error=found.stderr,
        decisions=float(found.pieces.mean()),
    )


def seed_of(key: Any) -> int:
    """A seed of the simulator for a key."""
    return int(jax.random.bits(key, dtype=jnp.uint32))


def within_reach(w: Any) -> np.ndarray:
    """The weights; a step to larger ones than the games take is refused by a search."""
    given = np.asarray(w)
    if np.abs(given).max() > FARTHEST:
        raise DivergedError(f"the weights of Tetris are beyond {FARTHEST:.0e}.")
    return given
