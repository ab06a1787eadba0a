"""How the search direction is accumulated while games are played: two rules, one result."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdpnewton.domains.tetris.streams import SPARE_BITS

RESETS = ("start", "empty", "piece")  # the kernel knows them by their places


@dataclass(frozen=True)
class RecurrentBoard:
    """Algorithm 2: the value of a decision is the lines until the recurrent state comes again.

    Traces Phi1, Phi2 add up scores and curvatures since the last visit; at every line they are
    added to the estimates of the gradient and of H2.

    Args:
        reset: "empty": every empty board is a visit, whatever the piece, as in Section 6.5.
            "piece": an empty board is one with the piece that the game began with, as the state is
            board and piece. "start": only the start of a game is; with `include_start` the
            estimates are then unbiased for the gradient and H2 of the expected lines of a game.
        include_start: Whether the score at the recurrent state itself enters its trace.
        h1: Whether to accumulate H1 too, which the first Gauss-Newton method needs.
    """

    reset: str = "empty"
    # Paper: Algorithm 2 resets the traces at the recurrent state and adds nothing. Here: a switch,
    # on by default, because without it what is decided on an empty board is never learnt.
    include_start: bool = True
    h1: bool = False

    def __post_init__(self) -> None:
        if self.reset not in RESETS:
            raise ValueError(
                f"`RecurrentBoard(reset=...)` is 'start', 'empty' or 'piece', got {self.reset!r}."
            )


@dataclass(frozen=True)
class Survival:
    """The value of a decision is the discounted survival after it, in lines: death is all one sees.

    A piece brings four cells and a line takes `width` of them, so that lines = (4 pieces - cells
    left) / width. The cells left are few and are ignored: every piece is a reward of 4 / width.
    With T - t pieces from decision t to the end of the game,

        Q_t = (4 / width) (1 - beta^(T - t)) / (1 - beta),

    which tends to 4 (T - t) / width as beta tends to 1. Occupancies are not discounted. Up to the
    factor c = 4 / (width (1 - beta)), with scores g_t and covariances C_t of the features,

        gradient = -sum_t g_t (beta^(T - t) - D(s_t)),    -H2 = sum_t C_t - sum_t beta^(T - t) C_t.

    The first needs one trace e = beta e + g and the differences beta D(s_{t+1}) - D(s_t), with
    1 - D(s_T) at the end. The second is the Fisher matrix minus a covariance trace read at the end.

    Args:
        beta: Discount factor, in (0, 1).
        critic: D(s), a guess of E beta^(T - t), as a table by the largest column height (0 to
            `height`), a number, or None for 0. It changes the variance and nothing else.
        share: One in `share` steps, drawn at random, has its covariance computed; a power of two.
    """

    beta: float = 0.99
    critic: float | Sequence[float] | None = None
    share: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.beta < 1:
            raise ValueError(f"`Survival(beta=...)` needs a number in (0, 1), got {self.beta}.")
        most = 1 << SPARE_BITS
        if self.share not in [1 << k for k in range(SPARE_BITS + 1)]:
            raise ValueError(
                f"`Survival(share=...)` needs a power of two from 1 to {most}, got {self.share}."
            )

    def table(self, height: int) -> np.ndarray:
        """D by the largest column height."""
        given = np.asarray(0.0 if self.critic is None else self.critic, float)
        if given.ndim == 0:
            given = np.full(height + 1, float(given))
        if given.shape != (height + 1,) or not np.isfinite(given).all():
            raise ValueError(
                f"`Survival(critic=...)` needs a number or {height + 1} finite numbers, one for "
                f"every height from 0 to {height}, got shape {given.shape}."
            )
        return given


Rule = RecurrentBoard | Survival


class Estimate(NamedTuple):
    """Gradient, H2 and Fisher matrix of a Gibbs policy, as means per game, and the games.

    Where only diagonals were accumulated, `h1`, `h2` and `fisher` are None.

    Attributes:
        lines: Number of lines of every game.
        pieces: Number of pieces placed in every game.
        capped: Whether the game was stopped at the cap.
        gradient: Gradient of the expected lines, as the rule values decisions.
        h2: The second Gauss-Newton matrix, eq. (19): negative definite, or nearly.
        h2_diagonal: Diagonal of H2.
        fisher: sum_t Cov[features] of a game: the Fisher matrix of its decisions. Divide by
            `pieces.mean()` for that of one decision.
        fisher_diagonal: Diagonal of the Fisher matrix.
        h1: sum Q_t score score', eq. (18), with `RecurrentBoard(h1=True)`; else None.
        h1_diagonal: Diagonal of H1, with `RecurrentBoard(h1=True)`; else None.
        cycles: Number of times that the traces were started, all games together.
        visits: How often a decision saw each largest column height.
        survival: With `Survival`, the mean of beta^(T - t) by largest column height, a critic for
            the next estimate; 0 where it was never seen. With `RecurrentBoard`, zeros.
    """

    lines: np.ndarray
    pieces: np.ndarray
    capped: np.ndarray
    gradient: np.ndarray
    h2: np.ndarray | None
    h2_diagonal: np.ndarray
    fisher: np.ndarray | None
    fisher_diagonal: np.ndarray
    h1: np.ndarray | None
    h1_diagonal: np.ndarray | None
    cycles: int
    visits: np.ndarray
    survival: np.ndarray

    @classmethod
    def of(
        cls, *, h2: np.ndarray, fisher: np.ndarray, h1: np.ndarray | None, **rest: Any
    ) -> "Estimate":
        """An estimate from matrices, or from vectors that are their diagonals.

        Args:
            h2: H2 or its diagonal.
            fisher: The Fisher matrix or its diagonal.
            h1: H1 or its diagonal; None where it was not accumulated.
            rest: The other attributes.
        """
        if h2.ndim == 1:
            return cls(
                h2=None,
                h2_diagonal=h2,
                fisher=None,
                fisher_diagonal=fisher,
                h1=None,
                h1_diagonal=h1,
                **rest,
            )
        return cls(
            h2=h2,
            h2_diagonal=np.diag(h2).copy(),
            fisher=fisher,
            fisher_diagonal=np.diag(fisher).copy(),
            h1=h1,
            h1_diagonal=None if h1 is None else np.diag(h1).copy(),
            **rest,
        )

    @property
    def games(self) -> int:
        """How many were played."""
        return len(self.lines)

    @property
    def mean(self) -> float:
        """Mean number of lines per game."""
        return float(self.lines.mean())

    @property
    def stderr(self) -> float:
        """Standard error of `mean`."""
        return standard_error(self.lines)


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean of the values; 0 for one value."""
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
