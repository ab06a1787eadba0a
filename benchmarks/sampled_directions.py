"""What a direction costs from samples, Appendix B.3: against n and against conjugate gradients.

    .venv/bin/python benchmarks/sampled_directions.py [--json] [--repetitions 9]

The cart-pole with a Gaussian policy whose mean is linear in n radial features; ten episodes of a
hundred steps are sampled once. Everything runs on one core in 64 bits, compilation is excluded,
rounds are interleaved, and medians of processor time are reported.

* One product with a vector: H2 exactly, H2 by differences of scores (eq. 58), the Fisher matrix,
  the whole Hessian from the same episodes, and the Hessian-free Newton product (eq. 61), which
  plays new episodes at other weights and takes the difference of two gradients.
* One direction: second Gauss-Newton by conjugate gradients (Algorithm 3) with exact and with
  differenced products, the natural gradient by conjugate gradients, ten steps each; the diagonal
  form; and the dense solve as far as it goes.
* The same against the number of steps of conjugate gradients, for the largest n.
"""

import os

if hasattr(os, "sched_setaffinity"):  # with the flags alone XLA keeps one thread per core
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OMP_NUM_THREADS"] = "1"

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from timing import Parts, medians, run_script, warm_up

import mdpnewton as mn
from mdpnewton.domains.cartpole import DISCOUNT, CartPole
from mdpnewton.policies import RadialBasis

SIZES = (100, 300, 1000, 3000, 10_000)
LARGEST_DENSE = 1000
STEPS = (5, 10, 20, 40)
EPISODES = 10


def problem(n: int) -> tuple[Any, Any, Any, Any]:
    """Policy, parameters, evaluator and the pairs of one batch."""
    rng = np.random.default_rng(0)
    box = np.array([np.pi, 4 * np.pi])
    features = RadialBasis(jnp.asarray(rng.uniform(-box, box, (n, 2))), jnp.array([1.0, 0.25]))
    policy = mn.LinearGaussian(4.0, n, features)
    w = jnp.asarray(10 * rng.normal(size=(1, n)) / np.sqrt(n / 100))
    evaluator = mn.MonteCarlo(CartPole(), DISCOUNT, episodes=EPISODES)
    return policy, w, evaluator, evaluator.evaluate(jax.random.key(0), policy, w)


def solver(steps: int, products: Any = "exact") -> mn.ConjugateGradient:
    """All steps, whatever the residual."""
    return mn.ConjugateGradient(steps, tolerance=0.0, products=products)


def products(policy: Any, w: Any, evaluator: Any, pairs: Any) -> Parts:
    """One product of each kind with the same vector."""
    vector = mn.gradient(policy, w, pairs)
    vector = vector / jnp.linalg.norm(vector)
    h2 = mn.curvature(policy, w, pairs, "H2")
    exact, differenced = jax.jit(h2.linearized()), jax.jit(h2.differenced())
    fisher = jax.jit(mn.curvature(policy, w, pairs, "fisher").linearized())
    whole = mn.policy_hessian(policy, w, pairs)
    near = w + 1e-3 * vector
    before = mn.gradient(policy, w, pairs)

    def hessian_free() -> Any:
        there = evaluator.evaluate(jax.random.key(1), policy, near)
        return (mn.gradient(policy, near, there) - before) / 1e-3

    return {
        "H2": lambda: exact(vector),
        "H2, differences": lambda: differenced(vector),
        "Fisher": lambda: fisher(vector),
        "Hessian": lambda: whole.mv(vector),
        "Hessian-free, new episodes": hessian_free,
    }


def directions(policy: Any, w: Any, pairs: Any, steps: int, *, dense: bool) -> Parts:
    """One direction of each method."""
    b = mn.gradient(policy, w, pairs)
    h2, fisher = -mn.curvature(policy, w, pairs, "H2"), mn.curvature(policy, w, pairs, "fisher")
    found = {
        "Algorithm 3": lambda: solver(steps).solve(h2, b)[0],
        "Algorithm 3, differences": lambda: solver(steps, "finite_difference").solve(h2, b)[0],
        "natural gradient": lambda: solver(steps).solve(fisher, b)[0],
        "diagonal": lambda: mn.Diagonal().solve(h2, b)[0],
    }
    if dense:
        found["dense"] = lambda: mn.Dense(relative_ridge=1e-6).solve(h2, b)[0]
    return found


def timed(parts: Parts, repetitions: int) -> dict[str, float]:
    """Median processor milliseconds of every part."""
    warm_up(parts)
    rounds = []
    for _ in range(repetitions):
        seconds = {}
        for name, part in parts.items():
            begin = time.process_time()
            jax.block_until_ready(part())
            seconds[name] = time.process_time() - begin
        rounds.append(seconds)
    return {name: 1000 * seconds for name, seconds in medians(rounds).items()}


def exponent(milliseconds: list[float]) -> float:
    """Growth with n, over the two largest sizes."""
    return float(np.log(milliseconds[-1] / milliseconds[-2]) / np.log(SIZES[-1] / SIZES[-2]))


def measure(repetitions: int) -> dict[str, Any]:
    """All three tables."""
    one_product, one_direction = {}, {}
    for n in SIZES:
        policy, w, evaluator, pairs = problem(n)
        one_product[str(n)] = timed(products(policy, w, evaluator, pairs), repetitions)
        dense = n <= LARGEST_DENSE
        one_direction[str(n)] = timed(directions(policy, w, pairs, 10, dense=dense), repetitions)
    steps = {
        str(k): timed(directions(policy, w, pairs, k, dense=False), repetitions) for k in STEPS
    }
    growth = {
        name: exponent([table[str(n)][name] for n in SIZES])
        for table in (one_product, one_direction)
        for name in table[str(SIZES[-1])]
    }
    pairs_played = EPISODES * CartPole().horizon
    return {
        "product": one_product,
        "direction": one_direction,
        "steps": steps,
        "exponent": growth,
        "pairs": pairs_played,
        "repetitions": repetitions,
    }


def show(found: dict[str, Any]) -> None:
    """The tables, in processor milliseconds."""
    console = Console()
    for title, key in (
        ("one product", "product"),
        ("one direction, ten steps", "direction"),
        ("one direction against steps of conjugate gradients", "steps"),
    ):
        names = list(found[key][str((SIZES if key != "steps" else STEPS)[0])])
        table = Table("n" if key != "steps" else "steps", *names, title=f"{title}, ms")
        for size, row in found[key].items():
            table.add_row(size, *(f"{row[name]:.2f}" if name in row else "" for name in names))
        console.print(table)
    console.print({name: round(value, 2) for name, value in found["exponent"].items()})


if __name__ == "__main__":
    run_script(__doc__ or "", 9, measure, show)
