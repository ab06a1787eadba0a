"""Conjugate gradients for network policies: growth with size, and against sb3-contrib's TRPO.

    .venv/bin/python benchmarks/cg.py [--json] [--repetitions 15]

Everything runs on one core in 32 bits. Compilation is excluded, rounds are interleaved, and medians
are reported. Time is processor time of all threads together. On one core of a quiet machine it
equals wall time, and it does not count what other programs do on the same core.

* Growth: the cost of one iteration of the generalised Gauss-Newton direction in units of one
  gradient, for Gaussian policies with two hidden layers of growing width and a thousand states, and
  the exponent of its seconds in the number of parameters. The cost of an iteration is the
  difference between a solve with 15 and one with 5, divided by 10.
* Peer, if torch, stable-baselines3 and sb3-contrib are installed: the time from a batch of 2,048
  observations, actions and advantages to the direction, with 10 iterations and damping 0.1. Theirs
  is the code of `TRPO.train` up to `search_direction`, with its own `hessian_vector_product` and
  `conjugate_gradient_solver`; ours is `direction`. Both hold the same weights, and with the Fisher
  matrix in place of the value-weighted one both find the same direction.
"""

import os

if hasattr(os, "sched_setaffinity"):  # with the flags alone XLA keeps one thread per core
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["JAX_ENABLE_X64"] = "0"

import copy
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.console import Console
from rich.table import Table
from timing import PAUSE, Parts, medians, run_script, warm_up

import mdpnewton as mn
from mdpnewton.policies.network import NetworkGaussian, mlp

WIDTHS = (25, 92, 308, 991)  # 1e3, 1e4, 1e5 and 1e6 parameters
STATES, BATCH, DAMPING = 1000, 2048, 0.1
TASKS = {"3 observations, 1 action": (3, 1), "11 observations, 3 actions": (11, 3)}
HINT = (
    "no peer: pip install torch==2.13.0, then stable-baselines3==2.9.2 sb3-contrib==2.9.2 gymnasium"
)


def problem(
    observations: int, actions: int, states: int, width: int
) -> tuple[NetworkGaussian, Any, mn.WeightedPairs]:
    """A policy, its parameters, and pairs with positive values and a normalised advantage."""
    rng = np.random.default_rng(0)
    policy = NetworkGaussian(
        mlp(jax.random.key(0), observations, actions, width), np.full(actions, 0.7)
    )
    advantage = rng.normal(size=(states, 1))
    advantage = (advantage - advantage.mean()) / advantage.std()
    value = 1 + rng.random(states)
    occupancy = np.full((states, 1), 1 / states)
    pairs = mn.WeightedPairs(
        states=jnp.asarray(rng.normal(size=(states, observations))),
        actions=jnp.asarray(rng.normal(size=(states, 1, actions))),
        occupancy=jnp.asarray(occupancy),
        value=jnp.asarray(occupancy * (value[:, None] + advantage)),
        advantage=jnp.asarray(occupancy * advantage),
        ascent=jnp.asarray(occupancy * advantage),
        state_value=jnp.asarray(value),
        objective=0.0,
    )
    return policy, policy.initial_parameters(), pairs


def solver(iterations: int, ridge: float = DAMPING) -> mn.ConjugateGradient:
    """A solver that does all iterations whatever the residual, from zero like the peer's."""
    return mn.ConjugateGradient(iterations, tolerance=0.0, ridge=ridge, start="zero")


def one_round(parts: Parts) -> dict[str, float]:
    """The processor seconds of one call of every part."""
    seconds = {}
    for name, part in parts.items():
        time.sleep(PAUSE)
        begin = time.process_time()
        jax.block_until_ready(part())
        seconds[name] = time.process_time() - begin
    return seconds


def growth(repetitions: int) -> list[dict[str, float]]:
    """The seconds of a gradient and of a conjugate-gradient iteration for every size."""
    found = []
    for width in WIDTHS:
        policy, w, pairs = problem(11, 3, STATES, width)
        matrix = -mn.curvature(policy, w, pairs, "generalized")
        b = mn.gradient(policy, w, pairs)
        parts: dict[str, Callable[[], Any]] = {
            "gradient": partial(mn.gradient, policy, w, pairs),
            "few": lambda A=matrix, b=b: solver(5).solve(A, b)[0],
            "many": lambda A=matrix, b=b: solver(15).solve(A, b)[0],
        }
        taken = solver(15).solve(matrix, b)[1].iterations
        if taken != 15:
            raise RuntimeError(f"conjugate gradients stopped after {taken} of 15 iterations")
        warm_up(parts)
        rounds = [one_round(parts) for _ in range(repetitions)]
        iteration = float(np.median([r["many"] - r["few"] for r in rounds])) / 10
        gradient = medians(rounds)["gradient"]
        found.append(
            {
                "parameters": int(ravel_pytree(w)[0].size),
                "gradient": gradient,
                "iteration": iteration,
                "gradients_per_iteration": iteration / gradient,
                "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    return found


def peer_direction(
    policy: NetworkGaussian, w: Any, pairs: mn.WeightedPairs
) -> Callable[[], np.ndarray] | None:
    """TRPO's direction for the same weights and batch, in our order; None if TRPO is missing."""
    try:
        import gymnasium
        import torch
        from sb3_contrib import TRPO
        from sb3_contrib.common.utils import conjugate_gradient_solver
        from stable_baselines3.common.distributions import kl_divergence
    except ImportError:
        return None
    torch.set_num_threads(1)

    def box(length: int) -> Any:
        return gymnasium.spaces.Box(-1, 1, (length,), np.float32)

    class Nowhere(gymnasium.Env):
        """An environment with spaces only, because the batch is given."""

        observation_space = box(pairs.states.shape[1])
        action_space = box(pairs.actions.shape[2])

    model = TRPO("MlpPolicy", Nowhere(), cg_max_steps=10, cg_damping=DAMPING, device="cpu")
    hidden = model.policy.mlp_extractor.policy_net
    layers = [hidden[0], hidden[2], model.policy.action_net]
    with torch.no_grad():
        model.policy.log_std.copy_(torch.tensor(np.asarray(w["log_sigma"])))
        for theirs, ours in zip(layers, w["mean"].layers, strict=True):
            theirs.weight.copy_(torch.tensor(np.asarray(ours.weight)))
            theirs.bias.copy_(torch.tensor(np.asarray(ours.bias)))
    observations = torch.tensor(np.asarray(pairs.states))
    actions = torch.tensor(np.asarray(pairs.actions[:, 0]))
    advantages = torch.tensor(np.asarray(pairs.advantage[:, 0] / pairs.occupancy[:, 0]))
    with torch.no_grad():
        old_log_prob = model.policy.get_distribution(observations).log_prob(actions)
    wanted = [model.policy.log_std, *(p for layer in layers for p in (layer.weight, layer.bias))]

    def direct() -> np.ndarray:
        with torch.no_grad():
            old = copy.copy(model.policy.get_distribution(observations))  # it is reused
        new = model.policy.get_distribution(observations)
        ratio = torch.exp(new.log_prob(actions) - old_log_prob)
        objective = (advantages * ratio).mean()
        divergence = kl_divergence(new, old).mean()
        params, slope, slope_of_kl, _ = model._compute_actor_grad(divergence, objective)
        product = partial(model.hessian_vector_product, params, slope_of_kl)
        flat = conjugate_gradient_solver(product, slope, max_iter=model.cg_max_steps)
        sizes = [p.numel() for p in params]
        pieces = {id(p): x for p, x in zip(params, flat.split(sizes), strict=True)}
        return torch.cat([pieces[id(p)] for p in wanted]).numpy()

    return direct


def peers(repetitions: int) -> dict[str, dict[str, float]]:
    """Seconds of both directions, their ratio, and the cosine between the Fisher ones."""
    found = {}
    for task, (observations, actions) in TASKS.items():
        policy, w, pairs = problem(observations, actions, BATCH, 64)
        theirs = peer_direction(policy, w, pairs)
        if theirs is None:
            return {}
        # Their divergence is also a mean over the action's dimensions, so their damping weighs
        # more by the number of dimensions.
        by = solver(10, DAMPING * actions)

        def ours(form: str, *at: Any, by: mn.ConjugateGradient = by) -> Callable[[], Any]:
            return lambda: mn.direction(mn.Precondition(form, by), *at).value

        parts: dict[str, Callable[[], Any]] = {
            "second Gauss-Newton": ours("generalized", policy, w, pairs),
            "natural": ours("generalized_fisher", policy, w, pairs),
            "TRPO": theirs,
        }
        warm_up(parts)
        seconds = medians([one_round(parts) for _ in range(repetitions)])
        x, y = flat(parts["natural"]()), theirs()
        found[task] = seconds | {
            "ratio": seconds["TRPO"] / seconds["second Gauss-Newton"],
            "ratio_natural": seconds["TRPO"] / seconds["natural"],
            "cosine": float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y))),
        }
    return found


def flat(direction: Any) -> np.ndarray:
    """The direction in the order of the peer: log sigma, then each layer's weight and its bias."""
    return np.asarray(
        ravel_pytree(
            [direction["log_sigma"], [(x.weight, x.bias) for x in direction["mean"].layers]]
        )[0]
    )


def measure(repetitions: int) -> dict[str, Any]:
    """Measure both parts."""
    sizes = growth(repetitions)
    n = np.log([size["parameters"] for size in sizes])
    t = np.log([size["iteration"] for size in sizes])
    return {
        "repetitions": repetitions,
        "growth": sizes,
        "exponent": float(np.polyfit(n, t, 1)[0]),
        "largest_exponent": float((np.diff(t) / np.diff(n)).max()),
        "peers": peers(repetitions),
    }


def show(found: dict[str, Any]) -> None:
    """Show two tables, or one and how to get the other."""
    console = Console(width=100)
    table = Table(title=f"Gaussian policy, two hidden layers, {STATES} states, 32 bits, one core")
    for heading in ("parameters", "gradient, ms", "CG iteration, ms", "gradients", "peak MB"):
        table.add_column(heading, justify="right")
    for size in found["growth"]:
        table.add_row(
            f"{size['parameters']:,}",
            f"{1e3 * size['gradient']:.2f}",
            f"{1e3 * size['iteration']:.2f}",
            f"{size['gradients_per_iteration']:.2f}",
            f"{size['peak_megabytes']:.0f}",
        )
    console.print(table)
    print(
        f"exponent of an iteration {found['exponent']:.2f}, "
        f"at most {found['largest_exponent']:.2f} from one size to the next"
    )
    if not found["peers"]:
        print(HINT)
        return
    table = Table(title=f"One direction, two layers of 64, {BATCH} states, 10 CG iterations")
    for heading in ("", "milliseconds", "TRPO takes", "cosine"):
        table.add_column(heading, justify="left" if not heading else "right")
    for task, seconds in found["peers"].items():
        table.add_section()
        for name in ("second Gauss-Newton", "natural", "TRPO"):
            cosine = f"{seconds['cosine']:.6f}" if name == "natural" else ""
            table.add_row(
                f"{name}, {task}",
                f"{1e3 * seconds[name]:.1f}",
                f"{seconds['TRPO'] / seconds[name]:.1f} times",
                cosine,
            )
    console.print(table)
    print(f"ratio {min(seconds['ratio'] for seconds in found['peers'].values()):.1f}")


if __name__ == "__main__":
    run_script(__doc__, 15, measure, show)
