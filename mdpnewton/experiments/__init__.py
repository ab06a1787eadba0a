"""The paper's experiments, one module each; no library code depends on them.

A module has a `Config`, its `SCALES`, `run`, `draw` and `table`. A module that makes more than
figures also has `pictures`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import Any

Progress = Callable[[int, int, str], None]  # done, total, what is being done


@dataclass(frozen=True)
class Experiment:
    """A row of the table of experiments.

    Attributes:
        module: Name of its module in `mdpnewton.experiments`.
        shows: One line that says what the experiment shows.
        settings: Fields of the module's `Config` that are specific to this experiment.
    """

    module: str
    shows: str
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self) -> ModuleType:
        """The module, imported on demand."""
        return importlib.import_module(f"mdpnewton.experiments.{self.module}")

    def config(self, scale: str, changes: dict[str, str]) -> Any:
        """The configuration of a scale, with some fields replaced by values given as text."""
        config = replace(self.load().SCALES[scale], **self.settings)
        known = {f.name: getattr(config, f.name) for f in fields(config)}
        for name, text in changes.items():
            if name not in known:
                raise ValueError(f"--set {name}: there is no such setting; known: {_listed(known)}")
            config = replace(config, **{name: _parsed(name, text, known[name])})
        return config


EXPERIMENTS = {
    "demo": Experiment("demo", "second Gauss-Newton against steepest and natural ascent"),
    "invariance": Experiment("invariance", "Figure 3: which methods depend on the basis"),
    "hallway": Experiment(
        "cross_term", "Figure 2a: H12 vanishes on the way to the optimum", {"maze": "hallway"}
    ),
    "mccallum": Experiment("cross_term", "Figure 2b: H12 does not vanish", {"maze": "mccallum"}),
    "cartpole": Experiment("cartpole", "Figure 4a: swing-up, read literally and with the preset"),
    "navigation": Experiment("navigation", "Figure 4b: EM, natural and second Gauss-Newton"),
    "manipulator-line-search": Experiment(
        "manipulator", "Figure 6a, Table 1: exact directions and a line search"
    ),
    "manipulator-fixed-step": Experiment(
        "manipulator", "Figure 6b: exact directions and a fixed step", {"steps": "fixed step"}
    ),
    "tetris": Experiment(
        "tetris", "Figure 8a: Tetris on ten rows, the paper's algorithm literally"
    ),
    "tetris-full": Experiment(
        "tetris",
        "Section 6.5: Tetris on twenty rows",
        {"height": 20, "methods": "second_gauss_newton"},
    ),
    "tetris-training": Experiment(
        "tetris_training", "beyond the paper: Tetris by survival, Gauss-Newton and natural"
    ),
    "ball-in-cup": Experiment("ball_in_cup", "Figure 8b: a robot arm learns to catch a ball"),
    "fsc": Experiment("fsc", "Appendix B.2: finite-state controllers for POMDPs, by blocks"),
    "offset": Experiment("offset", "what a constant added to all rewards does to the step"),
}


def _listed(known: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in known.items())


def _parsed(name: str, text: str, old: Any) -> Any:
    try:
        value = type(old)(text)
    except ValueError:
        kind = type(old).__name__
        raise ValueError(f"--set {name}={text}: needs a value of type {kind}, as {old!r}") from None
    if isinstance(value, int) and value < 1:
        raise ValueError(f"--set {name}={text}: must be at least 1")
    return value
