"""The diagonal direction from 200 pairs: how its cost grows with the number of parameters.

According to Section 4.1.1 of the paper it is O(pairs x parameters). The peer is the same direction
from the diagonal of the whole matrix, which `jax.hessian` builds; it is measured up to 2,000
parameters.
"""

import math
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn
from mdpnewton.report.tables import new_table

PAIRS = 200
SIZES = (500, 1000, 2000, 4000, 8000)
WHOLE = 2000  # parameters up to which the whole matrix is built too


def problems(size: int) -> dict[str, tuple]:
    """Policies with `size` parameters, each with states and actions."""
    rng = np.random.default_rng(size)
    half = size // 2
    wide, narrow = (jnp.asarray(rng.normal(size=(PAIRS, d))) for d in (size, half))
    choices = jnp.asarray(rng.integers(2, size=(PAIRS, 1)))
    moves = jnp.asarray(rng.normal(size=(PAIRS, 1, 1)))
    return {
        "linear softmax": (mn.LinearSoftmax(2, half, _itself), narrow, choices),
        "linear Gaussian": (mn.LinearGaussian(1.0, size), wide, moves),
        "Gibbs": (mn.Gibbs(_both_ways, size), wide, choices),
    }


def _itself(state):
    return state


def _both_ways(state):
    return jnp.stack([state, jnp.flip(state)])


def parts(size: int) -> dict:
    """What is timed at this size: our direction, and the peer's if it fits."""
    found = {}
    for name, row in problems(size).items():
        given = situation(*row)
        found[f"{name}, {size}"] = partial(_ours, *given)
        if size <= WHOLE:
            found[f"{name}, {size}, whole"] = partial(_whole, *given)
    return found


def situation(policy, states, actions) -> tuple:
    """The policy, its parameters and an evaluation of random weights."""
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.uniform(size=(PAIRS, 1))) for _ in range(3)]
    pairs = mn.WeightedPairs(states, actions, *weights, objective=0.0)
    return policy, 0.01 * jnp.ones_like(policy.initial_parameters()), pairs


def _ours(policy, w, pairs):
    return mn.direction("diagonal_second_gauss_newton", policy, w, pairs).value


@eqx.filter_jit
def _bends(policy, w, states, actions, weights):
    def surrogate(v):
        return jnp.sum(weights * policy.log_probs(v.reshape(w.shape), states, actions))

    flat = w.ravel()
    return jax.hessian(surrogate)(flat), jax.grad(surrogate)(flat)


def _whole(policy, w, pairs):
    matrix, slope = _bends(policy, w, pairs.states, pairs.actions, pairs.value)
    return (slope / -jnp.diagonal(matrix)).reshape(w.shape)


def measure(repetitions: int) -> dict:
    rounds: dict[str, list] = {}
    for size in SIZES:
        timed = parts(size)
        warm_up(timed)
        rounds[str(size)] = [one_round(timed) for _ in range(repetitions)]
    seconds = {k: v for found in rounds.values() for k, v in medians(found).items()}
    names = list(problems(2))
    exponents = {
        name: math.log(seconds[f"{name}, {SIZES[-1]}"] / seconds[f"{name}, {SIZES[0]}"])
        / math.log(SIZES[-1] / SIZES[0])
        for name in names
    }
    ratios = {
        name: seconds[f"{name}, {WHOLE}, whole"] / seconds[f"{name}, {WHOLE}"] for name in names
    }
    return {
        "pairs": PAIRS,
        "seconds": seconds,
        "exponents": exponents,
        "largest_exponent": max(exponents.values()),
        "ratio_to_the_whole_matrix": ratios,
        "largest_difference": max(_difference(*row) for row in problems(SIZES[0]).values()),
    }


def _difference(*row) -> float:
    """Relative difference between our direction and the one from the whole matrix."""
    ours, theirs = _ours(*situation(*row)), _whole(*situation(*row))
    return float(jnp.abs(ours - theirs).max() / jnp.abs(theirs).max())


def show(found: dict) -> None:
    table = new_table(
        f"Diagonal direction from {found['pairs']} pairs, milliseconds", "policy", *map(str, SIZES)
    )
    for name in found["exponents"]:
        for ending in ("", ", whole"):
            cells = [found["seconds"].get(f"{name}, {size}{ending}") for size in SIZES]
            table.add_row(
                name + ending, *("" if cell is None else f"{1000 * cell:.2f}" for cell in cells)
            )
    Console().print(table)
    for name, exponent in found["exponents"].items():
        ratio = found["ratio_to_the_whole_matrix"][name]
        print(f"{name}: exponent {exponent:.2f}, {ratio:.0f} times faster at {WHOLE} parameters")


if __name__ == "__main__":
    run_script(__doc__ or "", 15, measure, show)
