"""An experiment that costs nothing: two rounds of jobs, which count how often they are done."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        runs: Number of runs per method.
        scale: Factor of all numbers.
        marks: Folder in which jobs leave a mark; empty for none.
        failing: Name of a method that fails.
        seconds: Time that a job takes.
    """

    runs: int = 2
    scale: float = 1.0
    marks: str = ""
    failing: str = ""
    seconds: float = 0.0

    def __post_init__(self):
        check_settings(self)


SCALES = {"quick": Config(), "laptop": Config(runs=3), "paper": Config(runs=4)}


def work(config, seed):
    first = Runs(number_of, config, seed, ["a", "b"], config.runs)
    found = first.of((yield first.jobs))
    largest = max(float(row.max()) for rows in found.values() for row in rows)
    second = Runs(number_of, config, seed, ["c"], config.runs, "last-", {"more": largest})
    found |= second.of((yield second.jobs))
    return {"methods": {name: [row.tolist() for row in rows] for name, rows in found.items()}}


def number_of(settings, seed, method, number, more=0.0):
    config = Config(**settings)
    if config.marks:
        with (Path(config.marks) / f"{method}-{number}").open("a") as marks:
            marks.write("x")
    time.sleep(config.seconds)
    if method == config.failing:
        raise ValueError(f"method {method} cannot be done")
    rng = np.random.default_rng([seed, number, ord(method)])
    return more + config.scale * rng.normal(size=3)


def draw(results, config):
    return {}


def table(results):
    return f"{len(results['methods'])} methods"


if __name__ == "__main__":  # `mdpnewton` with this experiment
    import tiny_experiment

    from mdpnewton.cli import main
    from mdpnewton.experiments import EXPERIMENTS, Experiment

    sys.modules["mdpnewton.experiments.tiny"] = tiny_experiment
    EXPERIMENTS["tiny"] = Experiment("tiny", "nothing")
    sys.exit(main())
