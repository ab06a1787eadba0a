"""`mdpnewton run`: an experiment of the paper."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from mdpnewton.cli.flags import flag, split_setting
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.settings import settings_plan
from mdpnewton.cli.tables import experiments
from mdpnewton.version import __version__


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which experiment, and how.

    Attributes:
        experiment: A name from `mdpnewton list experiments`.
        scale: Seconds, minutes on two cores, or the paper's sizes.
        seed: Random seed.
        set: Change a setting of the experiment; may be repeated.
        settings: Show the settings of the experiment and run nothing.
    """

    experiment: str = flag(positional=True, metavar="EXPERIMENT", known=experiments)
    scale: Literal["quick", "laptop", "paper"] = "quick"
    seed: int = flag(0, least=0)
    set: tuple[str, ...] = flag((), metavar="NAME=VALUE")
    settings: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.experiments import EXPERIMENTS

    name, row = options.experiment, EXPERIMENTS[options.experiment]
    changes = dict(split_setting(text) for text in options.set)
    if options.settings:
        return settings_plan(name, changes)
    module, config = row.load(), row.config(options.scale, changes)
    about = {
        "experiment": name,
        "scale": options.scale,
        "seed": options.seed,
        "version": __version__,
    }

    def run(progress: Progress) -> Outcome:
        results = {**about, **module.run(config, options.seed, progress)}
        more = getattr(module, "pictures", None)
        return Outcome(
            results,
            table=lambda: module.table(results),
            draw=lambda: module.draw(results, config),
            pictures=None if more is None else lambda: more(results, folder),
            interrupted=results.get("interrupted", False),
        )

    return Plan(run, title=name, about={**about, "settings": asdict(config)})


COMMAND = Command(
    "run",
    "an experiment: a table, a figure and a run folder",
    Options,
    _plan,
    folder="{experiment}-{scale}-{seed}",
)
