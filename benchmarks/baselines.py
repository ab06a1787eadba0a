"""Variance of the sampled gradient and of H2 with each baseline and weight, on a finite MDP."""

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from timing import run_script

import mdpnewton as mn
from mdpnewton.domains.garnet import garnet
from mdpnewton.report.tables import new_table

BASELINES = ("none", "constant", "time", "state", "optimal")
EPISODES, HORIZON = 20, 100


def spread(rows: list) -> float:
    return float(np.var(np.array(rows), axis=0, ddof=1).sum())


def measure(repetitions: int) -> dict[str, dict[str, float]]:
    mdp = garnet(0, n_states=5)
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions, reduced=True)
    rng = np.random.default_rng(0)
    w = jnp.asarray(rng.normal(size=policy.initial_parameters().shape))
    simulator, table = mn.FiniteSimulator(mdp, HORIZON), mn.OneHot(mdp.n_states)
    gradient = {}
    for baseline in BASELINES:
        evaluator = mn.MonteCarlo(
            simulator, mdp.discount, episodes=EPISODES, baseline=baseline, features=table
        )
        gradient[baseline] = spread(
            [
                np.ravel(mn.gradient(policy, w, evaluator.evaluate(key, policy, w)))
                for key in jax.random.split(jax.random.key(0), repetitions)
            ]
        )
    critic = mn.LinearCritic(table, ridge=0.0)
    evaluators = {
        "Monte-Carlo Q": (mn.MonteCarlo(simulator, mdp.discount, episodes=EPISODES), "H2"),
        "Q-hat": (mn.ActorCritic(simulator, critic, mdp.discount, episodes=EPISODES), "H2"),
        "V-hat": (mn.ActorCritic(simulator, critic, mdp.discount, episodes=EPISODES), "V2"),
    }
    matrix = {
        name: spread(
            [
                np.ravel(mn.curvature(policy, w, evaluator.evaluate(key, policy, w), form).dense())
                for key in jax.random.split(jax.random.key(0), repetitions)
            ]
        )
        for name, (evaluator, form) in evaluators.items()
    }
    return {
        "gradient": {name: value / gradient["none"] for name, value in gradient.items()},
        "H2": {name: value / matrix["Monte-Carlo Q"] for name, value in matrix.items()},
    }


def show(found: dict[str, dict[str, float]]) -> None:
    for title, first in (("gradient", "baseline"), ("H2", "weights")):
        table = new_table(f"Variance of the {title}", first, "relative")
        for name, value in found[title].items():
            table.add_row(name, f"{value:.3f}")
        Console().print(table)


if __name__ == "__main__":
    run_script(__doc__ or "", 400, measure, show)
