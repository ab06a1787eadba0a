"""The accumulations of `rules`, written to be read: the oracle of the kernels."""

from typing import Any

import numpy as np

from mdpnewton.domains.tetris.plain import Decision, Game, column_heights, play_game, sampled
from mdpnewton.domains.tetris.rules import Estimate, RecurrentBoard, Rule, Survival


class _Sums:
    """Over games; what both rules add up."""

    def __init__(self, size: int, height: int):
        self.gradient = np.zeros(size)
        self.h2 = np.zeros((size, size))
        self.fisher = np.zeros((size, size))
        self.h1: np.ndarray | None = None
        self.cycles = 0
        self.visits = np.zeros(height + 1, int)
        self.survival = np.zeros(height + 1)

    def begin(self) -> None:
        """Before a game."""

    def step(self, step: Decision) -> None:
        """At every decision."""
        self.visits[column_heights(step.board).max()] += 1

    def end(self, game: Game) -> None:
        """After a game."""


def score_and_covariance(step: Decision) -> tuple[np.ndarray, np.ndarray]:
    """grad log pi = phi - E phi, and -grad grad' log pi = Cov phi, of a Gibbs policy."""
    p, phi = step.probabilities, step.features
    centred = phi - p @ phi
    return centred[step.chosen], centred.T @ (p[:, None] * centred)


class RecurrentSums(_Sums):
    """Algorithm 2."""

    def __init__(self, size: int, height: int, rule: RecurrentBoard):
        super().__init__(size, height)
        self.rule = rule
        self.trace, self.curvature = np.zeros(size), np.zeros((size, size))
        self.squares = np.zeros((size, size))
        self.h1 = np.zeros((size, size)) if rule.h1 else None
        self.started, self.first = False, 0

    def begin(self) -> None:
        """The start of a game is a visit under either setting."""
        self.started = False

    def step(self, step: Decision) -> None:
        """Phi1 += score, Phi2 -= covariance; Delta += lines Phi."""
        super().step(step)
        score, covariance = score_and_covariance(step)
        if not self.started:
            self.first = step.piece
        again = {"start": False, "empty": True, "piece": step.piece == self.first}
        visit = not self.started or (again[self.rule.reset] and not step.board.any())
        self.started = True
        if visit:
            self.cycles += 1
            self.trace, self.curvature = np.zeros_like(self.trace), np.zeros_like(self.curvature)
            self.squares = np.zeros_like(self.squares)
        if not visit or self.rule.include_start:
            self.trace = self.trace + score
            self.curvature = self.curvature - covariance
            self.squares = self.squares + np.outer(score, score)
        self.fisher += covariance
        self.gradient += step.placed.lines * self.trace
        self.h2 += step.placed.lines * self.curvature
        if self.h1 is not None:
            self.h1 += step.placed.lines * self.squares


class SurvivalSums(_Sums):
    """The rule `Survival`, summed backwards when the game is over."""

    def __init__(self, size: int, height: int, width: int, rule: Survival):
        super().__init__(size, height)
        self.rule, self.table = rule, rule.table(height)
        self.scale = 4 / (width * (1 - rule.beta))
        self.steps: list[Any] = []

    def begin(self) -> None:
        """No decision yet."""
        self.steps = []
        self.cycles += 1

    def step(self, step: Decision) -> None:
        """Keep what the end of the game will weigh."""
        super().step(step)
        score, covariance = score_and_covariance(step)
        drawn = self.rule.share * sampled(step.word, self.rule.share)
        self.steps.append((column_heights(step.board).max(), score, drawn * covariance))

    def end(self, game: Game) -> None:
        """beta^(T - t) is the signal; after a cap, D stands for what was not seen."""
        ahead = self.table[column_heights(game.board).max()] if game.capped else 1.0
        seen = 0.0 if game.capped else 1.0
        for level, score, covariance in reversed(self.steps):
            ahead, seen = self.rule.beta * ahead, self.rule.beta * seen
            self.gradient -= self.scale * (ahead - self.table[level]) * score
            self.h2 -= self.scale * (1 - seen) * covariance
            self.fisher += covariance
            self.survival[level] += seen


def estimate(
    weights: np.ndarray,
    rule: Rule,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    games: int = 10,
    seed: int = 0,
    first: int = 0,
    cap: int = 10_000_000,
) -> Estimate:
    """What `mdpnewton.domains.tetris.estimate` returns, slowly."""
    size = len(weights)
    sums: RecurrentSums | SurvivalSums
    if isinstance(rule, RecurrentBoard):
        sums = RecurrentSums(size, height, rule)
    else:
        sums = SurvivalSums(size, height, width, rule)
    played = []
    for game in range(first, first + games):
        sums.begin()
        board: dict[str, Any] = {"height": height, "width": width, "features": features}
        stream: dict[str, Any] = {"policy": "gibbs", "seed": seed, "game": game, "cap": cap}
        played.append(play_game(weights, **board, **stream, watch=sums.step))
        sums.end(played[-1])
    return Estimate.of(
        h2=sums.h2 / games,
        fisher=sums.fisher / games,
        h1=None if sums.h1 is None else sums.h1 / games,
        lines=np.array([game.lines for game in played]),
        pieces=np.array([game.pieces for game in played]),
        capped=np.array([game.capped for game in played]),
        gradient=sums.gradient / games,
        cycles=sums.cycles,
        visits=sums.visits,
        survival=sums.survival / np.maximum(sums.visits, 1),
    )
