"""How noisy estimates of the gradient and of every matrix are, in one unit.

    .venv/bin/python benchmarks/estimates.py [--json] [--repetitions 200]

Section 1 says that estimates of the Hessian vary more than those of the gradient. The unit here is
the relative standard deviation of an estimate from one batch: the root of the summed variance of
all entries over the norm of their mean. Its square, times the episodes of a batch and divided by
0.1 squared, is the number of episodes after which the estimate is right within a tenth.

The estimates come from whole episodes (`MonteCarlo`), of a random MDP with a table for the policy,
and of the navigation problem with a noisy gain. The last table compares the recurrent states of
Algorithm 2 on Tetris: an empty board whatever the piece, one with the piece that the game began
with, and the start of a game alone.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.console import Console
from rich.table import Table
from timing import run_script

import mdpnewton as mn
from mdpnewton.domains.navigation import Navigation
from mdpnewton.domains.tetris import RecurrentBoard, estimate
from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
from mdpnewton.domains.tetris.rules import RESETS

EPISODES = 50  # of a batch
WITHIN = 0.1
WEIGHTS = Path(__file__).parents[1] / "docs" / "results" / "tetris" / "weights.json"


def random_mdp() -> tuple[Any, Any, Any, float]:
    """A simulator, a policy, its parameters and the discount."""
    mdp = mn.garnet(0, n_states=6, n_actions=3, branching=3, discount=0.9)
    policy = mn.TabularSoftmax(6, 3, reduced=True)
    w = jax.tree.map(
        lambda leaf: leaf + 0.5 * jax.random.normal(jax.random.key(1), leaf.shape),
        policy.initial_parameters(),
    )
    return mn.FiniteSimulator(mdp, horizon=60), policy, w, 0.9


def navigation() -> tuple[Any, Any, Any, float]:
    """The same of Section 6.3, at a gain of medium quality."""
    return Navigation(), mn.NoisyGain(1, 2, 2.0), jnp.array([[20.0, -5.0]]), 1.0


PROBLEMS = {"random MDP": random_mdp, "navigation": navigation}


def entries(policy: Any, w: Any, pairs: Any) -> dict[str, np.ndarray]:
    """The gradient and every matrix of one batch, flat."""
    h12 = np.asarray(mn.cross_term(policy, w, pairs))
    matrices = {
        name: np.asarray(mn.curvature(policy, w, pairs, name).dense())
        for name in ("H1", "H2", "A1+A2", "fisher")
    }
    a = matrices["A1+A2"]
    found = {
        "gradient": ravel_pytree(mn.gradient(policy, w, pairs))[0],
        **matrices,
        "H12+H12'": h12 + h12.T,
        "Hessian": a + h12 + h12.T,
        "Hessian, H1+H2": matrices["H1"] + matrices["H2"] + h12 + h12.T,
    }
    return {name: np.ravel(np.asarray(each)) for name, each in found.items()}


def noise(batches: list[np.ndarray], episodes: int) -> dict[str, float | None]:
    """The relative standard deviation of a batch, and the episodes that are needed.

    None where the mean of all batches is lost in their noise.
    """
    every = np.array(batches)
    variance = float(every.var(axis=0, ddof=1).sum())
    square = float((every.mean(axis=0) ** 2).sum()) - variance / len(every)
    if square <= 0:
        return {"relative": None, "episodes": None}
    relative = float(np.sqrt(variance / square))
    return {"relative": relative, "episodes": episodes * (relative / WITHIN) ** 2}


def from_episodes(repetitions: int) -> dict[str, Any]:
    """For each problem and baseline, the noise of every estimate."""
    found: dict[str, Any] = {}
    for name, make in PROBLEMS.items():
        simulator, policy, w, discount = make()
        for baseline in ("none", "time"):
            evaluator = mn.MonteCarlo(simulator, discount, episodes=EPISODES, baseline=baseline)
            rows = [
                entries(policy, w, evaluator.evaluate(jax.random.key(k), policy, w))
                for k in range(repetitions)
            ]
            found.setdefault(name, {})[baseline] = {
                kind: noise([row[kind] for row in rows], EPISODES) for kind in rows[0]
            }
    return found


def recurrent_states(batches: int) -> dict[str, Any]:
    """For soft and for trained weights, visits per game and the noise of Algorithm 2."""
    policy = AfterstatePolicy("bi", 10, 10)
    trained = np.array(json.loads(WEIGHTS.read_text())["weights"])
    found: dict[str, Any] = {}
    for name, w in (("soft", soft_start(policy)), ("trained", trained)):
        for reset in RESETS:
            rows = [
                estimate(w, RecurrentBoard(reset), games=EPISODES, first=EPISODES * k, threads=1)
                for k in range(batches)
            ]
            found.setdefault(name, {})[reset] = {
                "lines": float(np.mean([row.mean for row in rows])),
                "visits": sum(row.cycles for row in rows) / (batches * EPISODES),
                "gradient": noise([row.gradient for row in rows], EPISODES),
                "H2": noise([row.h2.ravel() for row in rows if row.h2 is not None], EPISODES),
            }
    return found


def measure(repetitions: int) -> dict[str, Any]:
    """Both parts."""
    return {
        "repetitions": repetitions,
        "batch": EPISODES,
        "matrices": from_episodes(repetitions),
        "recurrent": recurrent_states(repetitions // 4),
    }


def told(number: float | None, how: str) -> str:
    """A number in a table."""
    return "-" if number is None else format(number, how)


def show(found: dict[str, Any]) -> None:
    """Both tables."""
    console = Console()
    table = Table("problem", "baseline", "estimate", "relative", "episodes for a tenth")
    for name, baselines in found["matrices"].items():
        for baseline, kinds in baselines.items():
            for kind, row in kinds.items():
                shown = told(row["relative"], ".2f"), told(row["episodes"], ",.0f")
                table.add_row(name, baseline, kind, *shown)
    console.print(table)
    table = Table("weights", "recurrent state", "visits per game", "gradient", "H2")
    for name, resets in found["recurrent"].items():
        for reset, row in resets.items():
            noises = (told(row[kind]["relative"], ".2f") for kind in ("gradient", "H2"))
            table.add_row(name, reset, f"{row['visits']:.3f}", *noises)
    console.print(table)


if __name__ == "__main__":
    run_script(__doc__ or "", 200, measure, show)
