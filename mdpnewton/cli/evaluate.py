"""`mdpnewton evaluate`: the policy of a run folder on fresh episodes."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.trainings import load_training, played_table, summarized
from mdpnewton.files.folder import POLICY


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to play, and how often.

    Attributes:
        run: Folder of `mdpnewton train`.
        episodes: Number of episodes.
        seed: Random seed of the episodes.
        render: Write an episode as a GIF.
        module: Module that may be imported, if the policy was trained on `module:Id-v0`.
    """

    run: Path = flag(positional=True, metavar="RUN")
    episodes: int = flag(100, least=1)
    seed: int = flag(1, least=0)
    render: bool = False
    module: str = flag("", metavar="NAME")


def _plan(options: Options, folder: Path) -> Plan:
    training = load_training(options.run / POLICY, options.module)
    return Plan(partial(_evaluated, options, training), title=training.environment)


def _evaluated(options: Options, training: Any, progress: Progress) -> Outcome:
    import jax

    progress(0, options.episodes, f"playing {options.episodes} episodes")
    found = training.play(jax.random.key(options.seed), options.episodes)
    results: dict[str, Any] = {
        "environment": training.environment,
        "method": training.method,
        "transitions": training.transitions,
        "final": summarized(training, found),
    }
    files = {"animation": options.run / "episode.gif"} if options.render else {}
    for name, path in files.items():
        progress(options.episodes, options.episodes, "drawing an episode")
        results[name] = str(path)
        _animate(training, options.seed, path)
    return Outcome(results, partial(played_table, results), files=files)


def _animate(training: Any, seed: int, path: Path) -> None:
    import jax

    from mdpnewton.environments.names import environment_id
    from mdpnewton.report.training import save_animation
    from mdpnewton.simulators import GymnasiumSimulator

    stage = GymnasiumSimulator(environment_id(training.environment), unit_actions=True)
    if training.preset.deadline:
        stage = stage.until(training.preset.deadline)
    how = (training.policy, training.played, training.playing.greedy)
    frames = stage.frames(jax.random.key(seed), *how)
    save_animation(path, frames)


COMMAND = Command("evaluate", "play the policy of a run folder", Options, _plan)
