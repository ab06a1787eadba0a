"""All Hessian terms of a dense MDP against automatic differentiation of the objective.

    .venv/bin/python benchmarks/dense_terms.py [--json] [--repetitions 9]

The MDP has 500 states, 4 actions, 200 Gibbs features and discount 0.95, in 64 bits. The parts below
are measured in one process and in interleaved rounds, without compilation; medians are reported:

* `FiniteEvaluator.evaluate` and `hessian_terms`: the Hessian and its eight parts;
* `jax.hessian`, jitted, forward over reverse, of U(w) = D'(I - gamma P_pi)^-1 r_pi through
  `jnp.linalg.solve`: the Hessian alone. The chain P_pi is written in two ways, as an einsum and
  as a sum, because XLA compiles them differently; the ratio is against the faster one;
* for comparison, the same derivative by hand, one column at a time with `jax.lax.map` over
  `jax.jvp` of `jax.grad`; it needs less memory than `jax.hessian`.

The last line is the ratio of the faster `jax.hessian` to the package.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn

STATES, ACTIONS, FEATURES, DISCOUNT = 500, 4, 200, 0.95
OURS = "mdpnewton: evaluation and all terms"
COLUMNS = "jax.jvp of jax.grad, lax.map over columns"


def problem(seed: int = 0) -> tuple[mn.FiniteMDP, np.ndarray, np.ndarray]:
    """A random dense MDP, features of shape (S, A, n), and parameters."""
    rng = np.random.default_rng(seed)
    mdp = mn.FiniteMDP(
        transition=rng.dirichlet(np.ones(STATES), size=(STATES, ACTIONS)),
        reward=rng.random((STATES, ACTIONS)),
        start=np.full(STATES, 1 / STATES),
        discount=DISCOUNT,
    )
    features = rng.normal(size=(STATES, ACTIONS, FEATURES))
    return mdp, features, rng.normal(size=FEATURES) / np.sqrt(FEATURES)


def objective(chain: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """U(w) through `jnp.linalg.solve`, given the function that makes P_pi from pi and P."""

    def at(w: Any, transition: Any, reward: Any, start: Any, features: Any) -> Any:
        pi = jax.nn.softmax(features @ w, axis=1)
        system = jnp.eye(STATES) - DISCOUNT * chain(pi, transition)
        return start @ jnp.linalg.solve(system, (pi * reward).sum(axis=1))

    return at


def by_columns(objective: Callable[..., Any]) -> Callable[..., Any]:
    """The Hessian, computed as one product with a unit vector after the other."""

    def at(w: Any, *data: Any) -> Any:
        def column(e: Any) -> Any:
            return jax.jvp(lambda v: jax.grad(objective)(v, *data), (w,), (e,))[1]

        return jax.lax.map(column, jnp.eye(w.size))

    return at


def measure(repetitions: int) -> dict[str, Any]:
    """Median seconds, the ratio, and the largest difference between the Hessians."""
    mdp, features, w = problem()
    policy, evaluator = mn.Gibbs(features), mn.FiniteEvaluator(mdp)
    arguments = [jnp.asarray(x) for x in (w, mdp.transition, mdp.reward, mdp.start, features)]
    chains = {
        "einsum": lambda pi, transition: jnp.einsum("sa,sat->st", pi, transition),
        "sum": lambda pi, transition: (pi[:, :, None] * transition).sum(axis=1),
    }
    references = {
        f"jax.hessian, P_pi as {name}": jax.jit(jax.hessian(objective(chain)))
        for name, chain in chains.items()
    }
    references[COLUMNS] = jax.jit(by_columns(objective(chains["einsum"])))

    def ours() -> dict[str, np.ndarray]:
        return mn.hessian_terms(
            policy, arguments[0], evaluator.evaluate(None, policy, arguments[0])
        )

    def call(reference: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: reference(*arguments)

    parts = {OURS: ours} | {name: call(reference) for name, reference in references.items()}
    warm_up(parts)
    seconds = medians([one_round(parts) for _ in range(repetitions)])
    hessian = ours()["hessian"]
    fastest = min((name for name in references if name != COLUMNS), key=seconds.__getitem__)
    return {
        "states": STATES,
        "actions": ACTIONS,
        "features": FEATURES,
        "repetitions": repetitions,
        "seconds": seconds,
        "reference": fastest,
        "ratio": seconds[fastest] / seconds[OURS],
        "ratio_by_columns": seconds[COLUMNS] / seconds[OURS],
        "largest_difference": max(
            float(np.abs(hessian - np.asarray(reference(*arguments))).max())
            for reference in references.values()
        ),
        "largest_entry": float(np.abs(hessian).max()),
    }


def show(found: dict[str, Any]) -> None:
    """Show a table, and the ratio as the last line."""
    table = Table(title=f"{STATES} states, {ACTIONS} actions, {FEATURES} features", width=80)
    table.add_column("Hessian by")
    table.add_column("milliseconds", justify="right")
    table.add_column("ratio", justify="right")
    for name, seconds in found["seconds"].items():
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{seconds / found['seconds'][OURS]:.1f}")
    Console(width=80).print(table)
    print(
        f"largest difference {found['largest_difference']:.1e} "
        f"(largest entry {found['largest_entry']:.1e})"
    )
    print(f"ratio {found['ratio']:.1f}")


if __name__ == "__main__":
    run_script(__doc__, 9, measure, show)
