"""What `peers.py` compares: environments with their goals, learners with their grids."""

from dataclasses import dataclass, field
from typing import Any

from mdpnewton.methods import row_named

Options = dict[str, Any]

OURS, DISCOUNT = "mdpnewton", 0.99


@dataclass(frozen=True)
class Task:
    """An environment, its budget of transitions, and how a policy is scored in it.

    Attributes:
        id: Gymnasium id of the environment.
        title: Title in the figure.
        goal: Score to reach.
        budget: Number of transitions per run.
        budgets: Budgets of single learners that differ from `budget`.
        tuning: Number of transitions of a run that picks a configuration.
        clock: Number of transitions between evaluations.
        episodes: Number of episodes per evaluation.
        discount: Discount factor of the score.
        more_seeds: Number of seeds reported beyond the learner's own number.
        floor: Lower end of the figure's vertical axis.
    """

    id: str
    title: str
    goal: float
    budget: int = 30_000
    budgets: dict[str, int] = field(default_factory=dict)
    tuning: int = 10_000
    clock: int = 2_000
    episodes: int = 10
    discount: float = 1.0
    more_seeds: int = 0
    floor: float = 0.0

    def transitions(self, learner: str) -> int:
        """The budget of a learner."""
        return self.budgets.get(learner, self.budget)


@dataclass(frozen=True)
class Learner:
    """A row of the comparison.

    Attributes:
        name: `OURS`, or the name of the peer's class.
        color: Colour in the figure.
        seeds: Number of seeds that are reported.
        grid: Configurations that are tried on the swing-up.
        default: The peer library's own configuration, which is tried elsewhere.
        only: Environments that the learner runs in; all if empty.
    """

    name: str
    color: str
    seeds: int = 5
    grid: tuple[Options, ...] = ()
    default: Options = field(default_factory=dict)
    only: tuple[str, ...] = ()


SWING_UP = "mdpnewton/CartPoleSwingUp-v0"
TASKS = (
    Task(
        SWING_UP,
        "cart-pole swing-up",
        goal=45.0,
        budget=60_000,
        budgets={OURS: 25_000, "SAC": 10_000},
        tuning=40_000,
        clock=400,
        episodes=20,
        discount=DISCOUNT,
    ),
    Task("mdpnewton/Navigation-v0", "navigation", goal=48.0),
    Task(
        "Pendulum-v1",
        "Pendulum-v1",
        goal=-200.0,
        budgets={"SAC": 6_000},
        tuning=30_000,  # after 10,000 all configurations look alike
        floor=-1600.0,
    ),
    Task("InvertedPendulum-v5", "InvertedPendulum-v5", goal=950.0, episodes=5),
    Task("CartPole-v1", "CartPole-v1", goal=475.0, budget=20_000, episodes=5, more_seeds=15),
)
LEARNERS = (
    Learner(OURS, row_named("second_gauss_newton").color),
    Learner(
        "PPO",
        "tab:orange",
        grid=tuple(
            {"n_steps": n, "learning_rate": rate, "normalize": True}
            for n in (400, 2000)
            for rate in (3e-4, 1e-3)
        ),
        default={"n_steps": 2048, "learning_rate": 3e-4, "normalize": False},
    ),
    Learner(
        "TRPO",
        "tab:green",
        grid=tuple(
            {"n_steps": n, "target_kl": kl, "normalize": True}
            for n in (400, 2000)
            for kl in (0.01, 0.05)
        ),
        default={"n_steps": 2048, "target_kl": 0.01, "normalize": False},
    ),
    Learner(
        "SAC",
        "tab:purple",
        seeds=3,
        grid=({"learning_rate": 1e-3},),
        only=(SWING_UP, "Pendulum-v1"),
    ),
)
