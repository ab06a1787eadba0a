"""Exact linear-Gaussian evaluation: growth with the horizon, many problems, and plain NumPy.

    .venv/bin/python benchmarks/linear_gaussian.py [--json] [--repetitions 15]

The problem is random, with 6 states, 3 actions and one Gaussian reward of all 9 numbers, in 64
bits. Times are medians of interleaved rounds without compilation.

* Horizons from 50 to 3200: `LinearGaussianEvaluator.evaluate`, `gradient` and the blocks of H2,
  as a search calls them, and the same numbers from `derivatives`, one compiled function. The
  exponent is the slope of log seconds against log H, for all horizons and for those from
  `LONG` on, where the overhead of calls no longer counts. It is given for the medians and for the
  fastest rounds, which other work on the machine disturbs least: it interrupts long calls more
  often.
* `derivatives` under `jax.vmap` for 1 to 256 start states and gains with H = 100.
* log U, gradient and H2 by explicit smoothing in NumPy, O(H^2), at H = 100: every step is
  conditioned on every later reward, either one by one, as the formulas are written, or for all
  steps before a reward at once by batched products and one factorisation.

The last line gives the larger of the exponents from `LONG` on, in the fastest rounds, and both
ratios of NumPy to the compiled function.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn
from mdpnewton.analysis.linear_gaussian import derivatives
from mdpnewton.report.tables import new_table

STATES, ACTIONS, SIGMA = 6, 3, 0.3
HORIZONS, LONG = (50, 100, 200, 400, 800, 1600, 3200), 400
EXPONENTS = ("all", f"from {LONG}", f"from {LONG}, fastest")
BATCHES = (1, 4, 16, 64, 256)
HORIZON = 100  # horizon of the batches and of the comparison
CALLS, COMPILED = "evaluate, gradient, H2", "one compiled function"
LOOP, BATCHED = "NumPy, step by step", "NumPy, all steps at once"

Problem = tuple[mn.LinearGaussianMDP, mn.AffineGaussian, dict[str, Any]]


def problem(horizon: int, seed: int = 0) -> Problem:
    """A random problem that stays bounded, its policy and parameters."""
    rng = np.random.default_rng(seed)
    d, k, z = STATES, ACTIONS, STATES + ACTIONS
    loop = rng.normal(size=(d, d))
    loop *= 0.95 / np.abs(np.linalg.eigvals(loop)).max()
    B, gain = 0.3 * rng.normal(size=(d, k)), 0.3 * rng.normal(size=(k, d))
    root, spread = rng.normal(size=(2, z, z)) / z
    mdp = mn.LinearGaussianMDP(
        A=loop - B @ gain,
        B=B,
        noise=0.01 * root[:d] @ root[:d].T,
        start_mean=rng.normal(size=d),
        start_covariance=0.1 * np.eye(d),
        reward_map=rng.normal(size=(z, z)),
        reward_target=rng.normal(size=z),
        reward_covariance=spread @ spread.T + np.eye(z),
        horizon=horizon,
    )
    policy = mn.AffineGaussian(k, d)
    return mdp, policy, policy.parameters(gain, 0.3 * rng.normal(size=k), SIGMA)


def calls(mdp: mn.LinearGaussianMDP, policy: mn.AffineGaussian, w: Any) -> tuple[Any, ...]:
    """log U, its gradient and the blocks of H2, in the calls that a search makes."""
    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    H2 = mn.curvature(policy, w, pairs, "H2")
    return pairs.objective, mn.gradient(policy, w, pairs), H2.blocks()


def in_numpy(mdp: mn.LinearGaussianMDP, w: Any, batched: bool) -> tuple[Any, ...]:
    """log U, its gradient in [K | m] and log sigma, and H2 / U of a row and of log sigma."""
    A, B, Q, M, y, L = (
        np.asarray(x)
        for x in (
            mdp.A,
            mdp.B,
            mdp.noise,
            mdp.reward_map[0],
            mdp.reward_target[0],
            mdp.reward_covariance[0],
        )
    )
    (d, k), H, v = B.shape, mdp.horizon, SIGMA**2
    K, m = np.asarray(w["mean"])[:, :-1], np.asarray(w["mean"])[:, -1]
    loop, drift, noise = A + B @ K, B @ m, v * B @ B.T + Q
    mu, P = np.empty((H, d)), np.empty((H, d, d))
    mu[0], P[0] = mdp.start_mean, mdp.start_covariance
    for t in range(H - 1):
        mu[t + 1], P[t + 1] = loop @ mu[t] + drift, loop @ P[t] @ loop.T + noise
    here = np.block([[np.eye(d), np.zeros((d, k))], [K, np.eye(k)]])  # (s, noise) to (s, a)
    ahead = np.concatenate([loop, B], axis=1)  # (s, noise) to the next s
    joint = np.zeros((H, d + k, d + k))  # covariance of s and (a - Ks - m) / sigma^2
    joint[:, :d, :d] = P
    joint[:, d:, d:] = np.eye(k)
    powers = np.empty((H, d + k, d + k))  # effect of (s, noise) on z that many steps later
    powers[0], power = M @ here, M @ here[:, :d]
    for lag in range(1, H):
        powers[lag], power = power @ ahead, power @ loop
    add = smoothed_batch if batched else smoothed_loop
    logs, parts = np.empty(H), []
    for tau in range(H):
        S = here @ np.block([[P[tau], np.zeros((d, k))], [np.zeros((k, d)), v * np.eye(k)]])
        C = L + M @ S @ here.T @ M.T
        error = y - M @ np.concatenate([mu[tau], K @ mu[tau] + m])
        solved = np.linalg.solve(C, error)
        logs[tau] = -0.5 * (np.linalg.slogdet(C)[1] - np.linalg.slogdet(L)[1] + error @ solved)
        parts.append(add(mu[: tau + 1], joint[: tau + 1], powers[tau::-1], C, solved, d))
    share = np.exp(logs - logs.max())
    total = share.sum()
    stacked = (np.array(part) for part in zip(*parts, strict=True))
    Sxx, g, trace = (np.tensordot(share / total, part, 1) for part in stacked)
    mass = share @ np.arange(1, H + 1) / total
    H2 = -Sxx / v, -2 * (k * mass + v * trace)
    return logs.max() + np.log(total), g, v * trace, *H2


def smoothed_loop(mu: Any, joint: Any, powers: Any, C: Any, solved: Any, d: int) -> Any:
    """Sums of x x', of zeta x' and of |zeta|^2 - k / sigma^2 given one reward, step by step."""
    k = joint.shape[1] - d
    Sxx, g, trace = np.zeros((d + 1, d + 1)), np.zeros((k, d + 1)), 0.0
    for mean, own, power in zip(mu, joint, powers, strict=True):
        cross = power @ own
        shift = cross.T @ solved
        change = -cross.T @ np.linalg.solve(C, cross)
        x = np.append(mean + shift[:d], 1.0)
        second = np.outer(x, x)
        second[:d, :d] += own[:d, :d] + change[:d, :d]
        Sxx += second
        g += np.outer(shift[d:], x)
        g[:, :d] += change[d:, :d]
        trace += shift[d:] @ shift[d:] + np.trace(change[d:, d:])
    return Sxx, g, trace


def smoothed_batch(mu: Any, joint: Any, powers: Any, C: Any, solved: Any, d: int) -> Any:
    """The same sums for all steps at once."""
    cross = powers @ joint
    shift = np.einsum("trz,r->tz", cross, solved)
    flat = cross.transpose(1, 0, 2).reshape(len(C), -1)
    whitened = np.linalg.solve(np.linalg.cholesky(C), flat).reshape(-1, cross.shape[2])
    change = -whitened.T @ whitened  # summed over the steps
    x = np.concatenate([mu + shift[:, :d], np.ones((len(mu), 1))], axis=1)
    Sxx, g = x.T @ x, shift[:, d:].T @ x
    Sxx[:d, :d] += joint[:, :d, :d].sum(axis=0) + change[:d, :d]
    g[:, :d] += change[d:, :d]
    return Sxx, g, np.sum(shift[:, d:] ** 2) + np.trace(change[d:, d:])


def batches() -> dict[str, Any]:
    """One call for every batch size."""
    mdp, policy, w = problem(HORIZON)
    rng = np.random.default_rng(1)

    def at(start: Any, mean: Any) -> Any:
        moved = eqx.tree_at(lambda m: m.start_mean, mdp, start)
        return derivatives(moved, policy, {**w, "mean": mean})

    together = jax.jit(jax.vmap(at))

    def call(size: int) -> Any:
        starts = jnp.asarray(rng.normal(size=(size, STATES)))
        means = w["mean"] + 0.01 * jnp.asarray(rng.normal(size=(size, ACTIONS, STATES + 1)))
        return lambda: together(starts, means)

    return {str(size): call(size) for size in BATCHES}


def measure(repetitions: int) -> dict[str, Any]:
    """Seconds per horizon with exponents, evaluations per second by batch, ratios to NumPy."""
    problems = {horizon: problem(horizon) for horizon in HORIZONS}
    both = {CALLS: calls, COMPILED: derivatives}
    parts: dict[str, Any] = {
        f"{name} {horizon}": lambda part=part, at=at: part(*at)
        for name, part in both.items()
        for horizon, at in problems.items()
    }
    parts |= batches()
    mdp, _, w = problems[HORIZON]
    parts |= {LOOP: lambda: in_numpy(mdp, w, False), BATCHED: lambda: in_numpy(mdp, w, True)}
    warm_up(parts)
    rounds = [one_round(parts) for _ in range(repetitions)]
    seconds = medians(rounds)
    fastest = {name: min(one[name] for one in rounds) for name in parts}
    by_horizon, at_best = (
        {name: {h: times[f"{name} {h}"] for h in HORIZONS} for name in both}
        for times in (seconds, fastest)
    )
    ours = by_horizon[COMPILED][HORIZON], by_horizon[CALLS][HORIZON]
    return {
        "repetitions": repetitions,
        "seconds": by_horizon,
        "fastest_seconds": at_best,
        "exponents": {
            name: dict(zip(EXPONENTS, (slope(m), slope(m, LONG), slope(f, LONG)), strict=True))
            for (name, m), f in zip(by_horizon.items(), at_best.values(), strict=True)
        },
        "evaluations_per_second": {size: size / seconds[str(size)] for size in BATCHES},
        "numpy_seconds": {name: seconds[name] for name in (LOOP, BATCHED)},
        "ratios": {
            name: {COMPILED: seconds[name] / ours[0], CALLS: seconds[name] / ours[1]}
            for name in (LOOP, BATCHED)
        },
        "largest_difference": difference(*problems[HORIZON]),
    }


def slope(times: dict[int, float], least: int = 0) -> float:
    """The exponent of H, by least squares in logarithms."""
    kept = np.log([(horizon, time) for horizon, time in times.items() if horizon >= least])
    return float(np.polyfit(kept[:, 0], kept[:, 1], 1)[0])


def difference(mdp: mn.LinearGaussianMDP, policy: mn.AffineGaussian, w: Any) -> float:
    """The largest relative difference between NumPy's numbers and ours."""
    found = derivatives(mdp, policy, w)
    mean = np.column_stack([found.gain, found.offset])
    ours = (found.log_objective, mean, found.log_sigma, found.H2, found.H2_log_sigma)
    return max(
        float(np.abs(one - other).max() / np.abs(other).max())
        for batched in (False, True)
        for one, other in zip(in_numpy(mdp, w, batched), map(np.asarray, ours), strict=True)
    )


def show(found: dict[str, Any]) -> None:
    """Show three tables, and the numbers to watch as the last line."""
    console = Console(width=80)
    table = new_table("Milliseconds per evaluation with gradient and H2", "H", CALLS, COMPILED)
    for horizon in HORIZONS:
        times = (found["seconds"][name][horizon] for name in (CALLS, COMPILED))
        table.add_row(str(horizon), *(f"{1e3 * time:.2f}" for time in times))
    for which in EXPONENTS:
        slopes = (found["exponents"][name][which] for name in (CALLS, COMPILED))
        table.add_row(f"exponent, {which}", *(f"{exponent:.2f}" for exponent in slopes))
    console.print(table)
    table = new_table(f"Under jax.vmap, H = {HORIZON}", "problems", "evaluations per second")
    for size, rate in found["evaluations_per_second"].items():
        table.add_row(str(size), f"{rate:,.0f}")
    console.print(table)
    headings = ("milliseconds", "over compiled", "over three calls")
    table = new_table(f"Explicit smoothing, H = {HORIZON}: ratios", "by", *headings)
    for name, ratios in found["ratios"].items():
        milliseconds = f"{1e3 * found['numpy_seconds'][name]:.1f}"
        table.add_row(name, milliseconds, *(f"{ratios[other]:.1f}" for other in (COMPILED, CALLS)))
    console.print(table)
    largest = max(exponents[EXPONENTS[-1]] for exponents in found["exponents"].values())
    loop, batched = (found["ratios"][name][COMPILED] for name in (LOOP, BATCHED))
    print(f"largest relative difference {found['largest_difference']:.1e}")
    print(f"largest exponent {largest:.2f}, ratios {loop:.1f} and {batched:.1f}")


if __name__ == "__main__":
    run_script(__doc__, 15, measure, show)
