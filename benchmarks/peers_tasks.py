"""What `peers.py` compares: environments, learners, and which learner runs where."""

from dataclasses import dataclass, field
from typing import Any

from peers_options import Options, published

from mdpnewton.methods import row_named

OURS = "mdpnewton"
FRESH = 2000  # the first seed that is reported: 1000 had been looked at before the preset was done


@dataclass(frozen=True)
class Task:
    """An environment, its budget of transitions, and how a policy is scored in it.

    Attributes:
        id: Gymnasium id of the environment.
        budget: Number of transitions per run.
        goal: Score to reach; None if there is no common one.
        reference: Score that counts as 1 in comparisons over several tasks. Doing nothing is 0.
        clock: Number of transitions between evaluations.
        episodes: Number of episodes per evaluation.
        discount: Discount factor of the score.
    """

    id: str
    budget: int
    goal: float | None = None
    reference: float | None = None
    clock: int = 1_000
    episodes: int = 10
    discount: float = 1.0

    @property
    def title(self) -> str:
        """The id without its module and its namespace."""
        return self.id.rpartition(":")[2].rpartition("/")[2]


@dataclass(frozen=True)
class Learner:
    """A row of the comparison.

    Attributes:
        name: What it is called in tables.
        color: Colour in figures.
        options: What `train` is called with, for rows of ours.
    """

    name: str
    color: str
    options: Options = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether it is `train`."""
        return self.name.startswith(OURS)


@dataclass(frozen=True)
class Entry:
    """A learner in a study.

    Attributes:
        learner: The learner.
        seeds: Number of runs per task.
        budget: Number of transitions per run, if not the task's.
        only: Ids of the tasks that it runs in; all if empty.
    """

    learner: Learner
    seeds: int
    budget: int | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """Learners on tasks.

    Attributes:
        about: What it asks, in a line.
        tasks: The tasks.
        entries: The learners; the first one is compared with all others.
    """

    about: str
    tasks: tuple[Task, ...]
    entries: tuple[Entry, ...]


PRESET = Learner(OURS, row_named("second_gauss_newton").color)
LINEAR = Learner(f"{OURS} linear", "tab:cyan", {"kind": "linear"})
MLP = Learner(f"{OURS} mlp", "tab:olive", {"kind": "mlp"})
NATURAL = Learner(f"{OURS} natural", row_named("natural").color, {"method": "natural"})
PPO = Learner("PPO", "tab:orange")
TRPO = Learner("TRPO", "tab:green")
SAC = Learner("SAC", "tab:purple")


def changed(color: str, **numbers: Any) -> Learner:
    """`train` with some numbers of its preset changed."""
    told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in numbers.items())
    return Learner(f"{OURS} {told}", color, {"preset": numbers})


CHANGED = (
    changed("tab:brown", critic="linear"),
    changed("tab:pink", critic="network"),
    changed("tab:blue", reuse=2),
    changed("tab:cyan", reuse=8),
    changed("tab:olive", divergence=0.1),
    changed("tab:gray", squashed=True),
)

LEARNERS = (PRESET, LINEAR, MLP, NATURAL, PPO, TRPO, SAC, *CHANGED)

# Scores of PPO after a million transitions: rl-baselines3-zoo, benchmark.md (one run, version 3 of
# the environments), and for the last two, which are not listed there, Tianshou (10 runs).
MUJOCO = tuple(
    Task(f"{name}-v5", 100_000, reference=reference, clock=10_000)
    for name, reference in {
        "HalfCheetah": 5819.0,
        "Hopper": 2410.0,
        "Swimmer": 282.0,
        "Walker2d": 3479.0,
        "InvertedDoublePendulum": 9231.0,
        "Reacher": -4.1,
    }.items()
)
LOCOMOTION = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5")
POINT_MASS = Task("choosing_tasks:PointMass-v0", 10_000, goal=-12.0, episodes=20)
GOALS = (
    Task("mdpnewton/CartPoleSwingUp-v0", 25_000, goal=45.0, clock=400, episodes=20, discount=0.99),
    Task("mdpnewton/Navigation-v0", 30_000, goal=48.0),
    Task("Pendulum-v1", 20_000, goal=-200.0, episodes=20),
    Task("InvertedPendulum-v5", 20_000, goal=950.0),
    Task("CartPole-v1", 20_000, goal=475.0),
    Task("Acrobot-v1", 50_000, goal=-100.0, clock=2_000, episodes=20),
    Task("MountainCarContinuous-v0", 50_000, goal=90.0, clock=2_000),
    POINT_MASS,
)


def small(module: str, **budgets: int) -> tuple[Task, ...]:
    """Tasks of a module beside this one, with their budgets."""
    return tuple(Task(f"{module}:{name}-v0", n, clock=n // 5) for name, n in budgets.items())


STUDIES = {
    "mujoco": Study(
        "six tasks of MuJoCo, against peers that are tuned for each",
        MUJOCO,
        (Entry(PRESET, 8), Entry(PPO, 8), Entry(TRPO, 8), Entry(SAC, 3, 30_000, LOCOMOTION)),
    ),
    "goals": Study(
        "how many transitions are needed to solve a task",
        GOALS,
        (Entry(PRESET, 20), Entry(PPO, 5), Entry(TRPO, 5)),
    ),
    "methods": Study(
        "Gauss-Newton against the natural gradient, with all else equal",
        (
            Task("Hopper-v5", 40_000, clock=5_000),
            Task("Reacher-v5", 30_000, clock=5_000),
            Task("Pendulum-v1", 8_000, episodes=20),
            Task("CartPole-v1", 8_000),
            Task("choosing_tasks:PointMass-v0", 8_000, episodes=20),
        ),
        (Entry(PRESET, 20), Entry(NATURAL, 20)),
    ),
    "parts": Study(
        "what single numbers of the preset bring",
        tuple(Task(name, 50_000, clock=5_000) for name in LOCOMOTION),
        (Entry(PRESET, 3), *(Entry(learner, 3) for learner in CHANGED)),
    ),
    "choosing": Study(
        "small tasks on which the preset was chosen",
        small(
            "choosing_tasks",
            PointMass=10_000,
            BadlyScaled=10_000,
            Delayed=15_000,
            SparseGoal=10_000,
            Upright=10_000,
            Tracking=20_000,
            Ridge=20_000,
            Throws=5_000,
        )
        + small(
            "more_tasks",
            Ball=10_000,
            Reservoir=30_000,
            Rooms=15_000,
            Ship=15_000,
            Shaken=20_000,
            Arm=15_000,
            Lights=15_000,
            Toss=8_000,
        ),
        tuple(Entry(learner, 5) for learner in (PRESET, LINEAR, MLP, PPO)),
    ),
    "unseen": Study(
        "small tasks on which nothing was chosen",
        small(
            "unseen_tasks",
            Glider=15_000,
            Tank=15_000,
            Swing=15_000,
            Errand=10_000,
            Warehouse=15_000,
            Juggled=15_000,
            Springs=30_000,
            Satellite=20_000,
        ),
        tuple(Entry(learner, 10) for learner in (PRESET, LINEAR, MLP, PPO)),
    ),
}


def options_for(learner: Learner, task: Task) -> Options:
    """The options of a learner on a task."""
    if learner.ours or learner == SAC:
        return learner.options
    return published(learner.name, task.id)
