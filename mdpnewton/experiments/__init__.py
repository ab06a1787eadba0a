"""The paper's experiments, one module each; no library code depends on them.

A module has a `Config`, which checks its settings, its `SCALES`, `work`, `draw` and `table`. One
that makes more than figures has `pictures` too.

`work(config, seed)` is a generator as `mdpnewton.jobs.gathered` drives it: it yields lists of jobs,
is sent what they found and returns the results. Before the first list it refuses settings that
cannot be, and computes nothing.
"""

import importlib
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, NamedTuple

from mdpnewton.experiments.settings import changed


class Takes(NamedTuple):
    """How long an experiment takes at each scale."""

    quick: str = ""
    laptop: str = ""
    paper: str = ""


UNKNOWN = Takes()


@dataclass(frozen=True)
class Experiment:
    """A row of the table of experiments.

    Attributes:
        module: Name of its module in `mdpnewton.experiments`.
        shows: One line that says what the experiment shows.
        settings: Fields of the module's `Config` that are specific to this experiment.
        takes: Roughly how long each scale takes with one worker: as it was measured, or estimated
            from one job of each run.
        axes: What the axes of its curves are, for its report.
    """

    module: str
    shows: str
    settings: dict[str, Any] = field(default_factory=dict)
    takes: Takes = UNKNOWN
    axes: tuple[str, ...] = ()

    def load(self) -> ModuleType:
        """The module, imported on demand."""
        return importlib.import_module(f"mdpnewton.experiments.{self.module}")

    def config(self, scale: str, changes: dict[str, str]) -> Any:
        """The configuration of a scale, with fields changed from their text."""
        found = self.load().SCALES[scale]
        if "model" in changes and not hasattr(found, "model"):
            rows = EXPERIMENTS.items()
            takers = [name for name, row in rows if hasattr(row.load().Config, "model")]
            raise ValueError(
                f"--set model: this experiment has problems of its own; those that take a model "
                f"are {', '.join(takers)}"
            )
        return changed(replace(found, **self.settings), changes)


EXPERIMENTS = {
    "demo": Experiment(
        "demo",
        "second Gauss-Newton against steepest and natural ascent",
        takes=Takes("10 s", "1 min", "5 min"),
        axes=("iteration", "share of the best gain"),
    ),
    "invariance": Experiment(
        "invariance",
        "Figure 3: which methods depend on the basis",
        takes=Takes("10 s", "1 min", "8 min"),
    ),
    "hallway": Experiment(
        "cross_term",
        "Figure 2a: H12 vanishes on the way to the optimum",
        {"maze": "hallway"},
        takes=Takes("10 s", "10 s", "10 s"),
    ),
    "mccallum": Experiment(
        "cross_term",
        "Figure 2b: H12 does not vanish",
        {"maze": "mccallum"},
        takes=Takes("10 s", "10 s", "10 s"),
    ),
    "careful": Experiment(
        "careful",
        "Section 5.1: steepest ascent in the norm of -H2",
        takes=Takes("10 s", "10 s", "10 s"),
        axes=("value of the one by value of the other", "its step by the other's"),
    ),
    "cartpole": Experiment(
        "cartpole",
        "Figure 4a: swing-up, read literally and with the preset",
        takes=Takes("30 s", "30 min", "4 h"),
        axes=("transitions", "discounted return"),
    ),
    "navigation": Experiment(
        "navigation",
        "Figure 4b: EM, natural and second Gauss-Newton",
        takes=Takes("30 s", "15 min", "1 h"),
        axes=("transitions", "return over 80 steps"),
    ),
    "manipulator-line-search": Experiment(
        "manipulator",
        "Figure 6a, Table 1: exact directions and a line search",
        takes=Takes("30 s", "1.5 h", "7 h"),
        axes=("iteration", "share of the best reward"),
    ),
    "manipulator-fixed-step": Experiment(
        "manipulator",
        "Figure 6b: exact directions and a fixed step",
        {"steps": "fixed step"},
        takes=Takes("30 s", "20 min", "1.5 h"),
        axes=("iteration", "share of the best reward"),
    ),
    "tetris": Experiment(
        "tetris",
        "Figure 8a: Tetris on ten rows, the paper's algorithm literally",
        takes=Takes("20 s", "80 min", "1 day"),
        axes=("iteration", "lines per game"),
    ),
    "tetris-full": Experiment(
        "tetris",
        "Section 6.5: Tetris on twenty rows",
        {"height": 20, "methods": "second_gauss_newton"},
        takes=Takes("10 s", "8 h", "1 week"),
        axes=("iteration", "lines per game"),
    ),
    "tetris-training": Experiment(
        "tetris_training",
        "beyond the paper: Tetris by survival, Gauss-Newton and natural",
        takes=Takes("10 s", "25 min", "25 min"),
    ),
    "ball-in-cup": Experiment(
        "ball_in_cup",
        "Figure 8b: a robot arm learns to catch a ball",
        takes=Takes("20 s", "20 min", "1.5 h"),
        axes=("update", "reward of the samples"),
    ),
    "fsc": Experiment(
        "fsc",
        "Appendix B.2: finite-state controllers for POMDPs, by blocks",
        takes=Takes("1 min", "7 min", "2 h"),
        axes=("iteration", "value"),
    ),
    "richness": Experiment(
        "richness",
        "Sections 4.1, 4.2.3: H12 and the first method's rate as features get rich",
        takes=Takes("10 s", "1 min", "15 min"),
        axes=("features", ""),
    ),
    "saddle": Experiment(
        "saddle",
        "beyond the paper: out of a saddle by Newton's steps within a region",
        takes=Takes("30 s", "25 min", "12 h"),
        axes=("iteration", "share of the best value"),
    ),
    "offset": Experiment(
        "offset",
        "what a constant added to all rewards does to the step",
        takes=Takes("10 s", "3 min", "25 min"),
        axes=("added to every reward", ""),
    ),
}
