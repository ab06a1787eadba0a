"""Latency of one action: a loaded policy, its export, the policy in JAX, and Stable-Baselines3.

The policy is the default one of `train` on Pendulum-v1, `rbf` with 200 features, and the peer is
PPO with its default network, of two layers of 64 units. Both get the same raw observation, one per
call, and answer an action within the box. Nothing is trained: weights do not change the latency.
"""

import importlib.util
import runpy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn
from mdpnewton.environments.names import simulator_of
from mdpnewton.report.tables import new_table
from mdpnewton.training.train import begin

CALLS = {"eager JAX": 20, "Stable-Baselines3": 300}  # per round; as many as `MANY` otherwise
MANY = 2000
BATCH = 256


def acting() -> dict[str, Callable[[], Any]]:
    """One action each, by its name."""
    training = begin(simulator_of("Pendulum-v1"), "rbf", 0)
    with tempfile.TemporaryDirectory() as folder:
        loaded = mn.load(training.save(folder))
        exported = runpy.run_path(str(loaded.export(Path(folder) / "alone")))["act"]
    environment = gymnasium.make("Pendulum-v1")
    seen, _ = environment.reset(seed=0)
    policy, w = training.policy, training.played
    row, batch = jnp.asarray(seen, float), np.stack([seen] * BATCH)
    compiled = jax.jit(lambda seen: policy.mode(w, seen))
    parts: dict[str, Callable[[], Any]] = {
        "loaded policy": lambda: loaded.act(seen),
        "loaded policy, drawn": lambda: loaded.act(seen, greedy=False),
        f"loaded policy, {BATCH} at once": lambda: loaded.act(batch),
        "exported policy": lambda: exported(seen),
        "compiled JAX": lambda: np.asarray(compiled(row)),
        "eager JAX": lambda: np.asarray(policy.mode(w, row)),
    }
    if all(map(importlib.util.find_spec, ("torch", "stable_baselines3"))):
        import torch
        from stable_baselines3 import PPO

        torch.set_num_threads(1)
        peer = PPO("MlpPolicy", environment, device="cpu")
        parts["Stable-Baselines3"] = lambda: peer.predict(seen, deterministic=True)
    return parts


def repeated(name: str, call: Callable[[], Any]) -> Callable[[], None]:
    """A part that calls so often that a clock can tell."""

    def part() -> None:
        for _ in range(CALLS.get(name, MANY)):
            call()

    return part


def measure(repetitions: int) -> dict[str, Any]:
    parts = {name: repeated(name, call) for name, call in acting().items()}
    warm_up(parts)
    seconds = medians([one_round(parts) for _ in range(repetitions)])
    each = {name: 1e6 * spent / CALLS.get(name, MANY) for name, spent in seconds.items()}
    ours = each["loaded policy"]
    return {"microseconds": each, "ratio": {name: spent / ours for name, spent in each.items()}}


def show(found: dict[str, Any]) -> None:
    table = new_table("Latency of an action on Pendulum-v1", "", "microseconds", "ratio")
    for name, spent in found["microseconds"].items():
        table.add_row(name, f"{spent:,.1f}", f"{found['ratio'][name]:.2f}")
    Console().print(table)
    if "Stable-Baselines3" not in found["ratio"]:
        Console().print("no peer: pip install torch stable-baselines3")


if __name__ == "__main__":
    run_script(__doc__ or "", 11, measure, show)
