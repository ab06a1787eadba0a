"""Environment steps per second: cart-pole compiled and vectorised against a plain Gymnasium loop.

Both have the same dynamics (`mdpnewton.domains.cartpole.advance`) and random forces, in one run.
The compiled simulator plays 4,096 episodes side by side; the loop steps the registered environment
without Gymnasium's wrappers, as one would write it by hand.
"""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from timing import medians, one_round, run_script, warm_up

import mdpnewton as mn
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.environments import IDS
from mdpnewton.report.tables import new_table

EPISODES, LOOP_EPISODES = 4096, 20
PUSH = mn.LinearGaussian([[400.0]], 1, lambda seen: jnp.ones(1))


def compiled() -> jax.Array:
    return CartPole().play(jax.random.key(0), PUSH, jnp.zeros((1, 1)), EPISODES).rewards


def loop() -> float:
    environment = gymnasium.make(IDS["cartpole"]).unwrapped
    rng, total = np.random.default_rng(0), 0.0
    for episode in range(LOOP_EPISODES):
        environment.reset(seed=episode)
        for _ in range(100):
            _, reward, *_ = environment.step(rng.normal(0.0, 20.0, size=1))
            total += reward
    return total


def measure(repetitions: int) -> dict[str, float]:
    parts = {"compiled": compiled, "loop": loop}
    warm_up(parts)
    seconds = medians([one_round(parts) for _ in range(repetitions)])
    rates = {
        "compiled": EPISODES * 100 / seconds["compiled"],
        "loop": LOOP_EPISODES * 100 / seconds["loop"],
    }
    return {**rates, "ratio": rates["compiled"] / rates["loop"]}


def show(found: dict[str, float]) -> None:
    table = new_table("Cart-pole swing-up", "simulator", "steps per second")
    table.add_row(f"compiled, {EPISODES} episodes at once", f"{found['compiled']:,.0f}")
    table.add_row("Gymnasium, a plain loop", f"{found['loop']:,.0f}")
    table.add_row("ratio", f"{found['ratio']:.0f}")
    Console().print(table)


if __name__ == "__main__":
    run_script(__doc__ or "", 7, measure, show)
