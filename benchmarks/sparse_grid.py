"""Sparse grid worlds of 10,000 and 100,000 states: seconds, growth and memory of every part.

    .venv/bin/python benchmarks/sparse_grid.py [--json] [--repetitions 5]

The world is a rectangle of cells with four actions that slip sideways with probability 0.2, one
absorbing goal in the middle that pays 1 per step, 0.1 per step elsewhere, a uniform start and
discount 0.99. The transitions are scipy sparse, and nothing of size S x S is dense. There are two
policies: tabular softmax with 4 parameters per state, and Gibbs with 20 radial-basis functions for
each action but the last, 60 parameters. The parts that are measured are the exact evaluation, the
gradient, H2 (for the table its diagonal and its blocks, for Gibbs its diagonal and the 60 x 60
matrix), and the direction of `conjugate_gradient_second_gauss_newton`, including the gradient, with
its report.

Every size has its own process, so that the peaks of resident memory are separate; the processes
take turns, round by round. Times are medians of the rounds; a first call at the same shapes
compiles and is not counted. The peak of a policy is the process's peak when that policy was ready.
The exponent is log(t_large / t_small) / log(S_large / S_small): 1 is linear in the states.
The last line gives the largest exponent and the largest peak.
"""

import json
import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn

SIZES = ((80, 125), (250, 400))  # cells; about the same shape
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # in circular order: neighbours are sideways
SLIP, DISCOUNT, CENTRES = 0.2, 0.99, (4, 5)
ELSEWHERE = 0.1  # reward of the other cells; with 0, H2 is zero to round-off far from the goal
METHOD = "conjugate_gradient_second_gauss_newton"


def grid_world(height: int, width: int) -> mn.FiniteMDP:
    """The slippery grid; a move into the border stays in the cell."""
    n_states, n_actions = height * width, len(MOVES)
    states = np.arange(n_states)
    row, column = np.divmod(states, width)
    goal = (height // 2) * width + width // 2
    reached = []
    for down, right in MOVES:
        next_row = np.clip(row + down, 0, height - 1)
        next_column = np.clip(column + right, 0, width - 1)
        reached.append(np.where(states == goal, goal, next_row * width + next_column))
    rows, columns, chances = [], [], []
    for action in range(n_actions):
        for turn, chance in ((0, 1 - SLIP), (1, SLIP / 2), (-1, SLIP / 2)):
            rows.append(states * n_actions + action)
            columns.append(reached[(action + turn) % n_actions])
            chances.append(np.full(n_states, chance))
    transition = sparse.coo_array(
        (np.concatenate(chances), (np.concatenate(rows), np.concatenate(columns))),
        shape=(n_states * n_actions, n_states),
    )
    reward = np.full((n_states, n_actions), ELSEWHERE)
    reward[goal] = 1.0
    return mn.FiniteMDP(transition, reward, np.full(n_states, 1 / n_states), DISCOUNT)


def radial_features(height: int, width: int) -> np.ndarray:
    """Gaussian bumps on a coarse grid for each action but the last, shape (S, A, n)."""
    row, column = np.divmod(np.arange(height * width), width)
    down, right = (np.linspace(0, 1, number) for number in CENTRES)
    near_row = ((row / (height - 1))[:, None] - down) ** 2 * (CENTRES[0] - 1) ** 2
    near_column = ((column / (width - 1))[:, None] - right) ** 2 * (CENTRES[1] - 1) ** 2
    bumps = np.exp(-2 * (near_row[:, :, None] + near_column[:, None, :]))
    bumps = bumps.reshape(height * width, -1)
    free = len(MOVES) - 1  # bumps for the last action as well would make H2 singular
    features = np.zeros((len(bumps), len(MOVES), free, bumps.shape[1]))
    features[:, np.arange(free), np.arange(free)] = bumps[:, None]
    return features.reshape(len(bumps), len(MOVES), -1)


def prepare(mdp: mn.FiniteMDP, policy: Any, matrix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts to time, compiled, and what the solve reported."""
    evaluator = mn.FiniteEvaluator(mdp)
    shape = policy.initial_parameters().shape
    w = jnp.asarray(0.5 * np.random.default_rng(0).normal(size=shape))
    pairs = evaluator.evaluate(None, policy, w)
    H2 = mn.curvature(policy, w, pairs, "H2")
    parts = {
        "evaluation": lambda: evaluator.evaluate(None, policy, w).value,
        "gradient": lambda: mn.gradient(policy, w, pairs),
        "H2 diagonal": H2.diagonal,
        f"H2 {matrix}": getattr(H2, matrix),
        "CG direction": lambda: mn.direction(METHOD, policy, w, pairs).value,
    }
    warm_up(parts)
    report = mn.direction(METHOD, policy, w, pairs).report
    return parts, {
        "parameters": int(w.size),
        "status": report.status,
        "residual": report.residual,
        "iterations": report.iterations,
        "peak_gigabytes": peak_gigabytes(),
    }


def peak_gigabytes() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # Linux counts in kB


def serve(height: int, width: int) -> None:
    """Serve one grid: print as JSON what was solved, then the times of one round per input line."""
    mdp = grid_world(height, width)
    table = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    tabular, about_tabular = prepare(mdp, table, "blocks")
    gibbs, about_gibbs = prepare(mdp, mn.Gibbs(radial_features(height, width)), "dense")
    about = {"tabular": about_tabular, "gibbs": about_gibbs}
    print(json.dumps({"states": mdp.n_states, "policies": about}), flush=True)
    for _ in sys.stdin:
        seconds = {"tabular": one_round(tabular), "gibbs": one_round(gibbs)}
        print(json.dumps({"seconds": seconds, "peak": peak_gigabytes()}), flush=True)


def measure(repetitions: int) -> dict[str, Any]:
    """Measure every size in its own process, in turn, and the growth from the first to the last."""
    servers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__)), "--grid", str(height), str(width)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for height, width in SIZES
    ]
    sizes = [answer(server) for server in servers]
    rounds: list[list[dict[str, Any]]] = [[] for _ in servers]
    for _ in range(repetitions):
        for server, collected in zip(servers, rounds, strict=True):
            server.stdin.write("round\n")
            server.stdin.flush()
            collected.append(answer(server))
    for server, size, collected in zip(servers, sizes, rounds, strict=True):
        server.communicate()
        size["peak_gigabytes"] = collected[-1]["peak"]
        for policy, about in size["policies"].items():
            about["seconds"] = medians([one["seconds"][policy] for one in collected])
    small, large = sizes[0], sizes[-1]
    growth = math.log(large["states"] / small["states"])
    exponents = {
        policy: {
            part: math.log(seconds / small["policies"][policy]["seconds"][part]) / growth
            for part, seconds in about["seconds"].items()
        }
        for policy, about in large["policies"].items()
    }
    return {
        "repetitions": repetitions,
        "sizes": sizes,
        "exponents": exponents,
        "largest_exponent": max(e for parts in exponents.values() for e in parts.values()),
        "peak_gigabytes": max(size["peak_gigabytes"] for size in sizes),
    }


def answer(server: subprocess.Popen) -> dict[str, Any]:
    """The next line of a server."""
    line = server.stdout.readline()
    if not line:
        raise SystemExit("a grid's process ended early; its error is above")
    return json.loads(line)


def show(found: dict[str, Any]) -> None:
    """Show two tables, and the two numbers to watch as the last line."""
    console = Console(width=80)
    sizes = found["sizes"]
    table = Table(title="Milliseconds per part, and growth with the states", width=80)
    for name in ("policy", "part"):
        table.add_column(name)
    for name in (*(f"{size['states']:,} states" for size in sizes), "exponent"):
        table.add_column(name, justify="right")
    for policy, parts in found["exponents"].items():
        for part, exponent in parts.items():
            times = (size["policies"][policy]["seconds"][part] for size in sizes)
            table.add_row(policy, part, *(f"{1e3 * t:,.1f}" for t in times), f"{exponent:.2f}")
        table.add_section()
    console.print(table)
    table = Table(title="The solve of the CG direction, and peak memory so far", width=80)
    for name in ("policy", "states", "parameters", "status", "residual", "steps", "peak GB"):
        table.add_column(name, justify="left" if name in ("policy", "status") else "right")
    for size in sizes:
        for policy, about in size["policies"].items():
            table.add_row(
                policy,
                f"{size['states']:,}",
                f"{about['parameters']:,}",
                about["status"],
                f"{about['residual']:.1e}",
                str(about["iterations"]),
                f"{about['peak_gigabytes']:.2f}",
            )
    console.print(table)
    print(
        f"largest_exponent {found['largest_exponent']:.2f} "
        f"peak_gigabytes {found['peak_gigabytes']:.2f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--grid"]:  # each size has its own process
        serve(*map(int, sys.argv[2:4]))
    else:
        run_script(__doc__, 5, measure, show)
