"""`mdpnewton train`: a policy for a Gymnasium environment."""

import json
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from mdpnewton.cli.flags import flag, split_setting
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.settings import preset_help
from mdpnewton.cli.tables import method_names
from mdpnewton.cli.trainings import played_table, reach, summarized
from mdpnewton.files.folder import POLICY
from mdpnewton.version import RESULTS, __version__

CHUNK = 4  # episodes of a compiled simulator that are played at once
FINAL_EPISODES = 20
TRANSITIONS = 25_000  # where nothing else is said
WENT_BACK = (
    "returns had been below those of the first batch for long; the training goes on from the best "
    "point, with steps of half the length"
)
SECONDS = 1.0  # least time between two savings


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to train on, and how.

    Attributes:
        environment: A Gymnasium id; module:Id-v0 to import the module first; or cartpole,
            navigation.
        method: Method of the training: one that `mdpnewton list methods` shows for
            `sampled`, or with `--policy mlp` for `network`.
        policy: Kind of the policy: linear in the observations, linear in random features of
            them, or a network.
        actions: What keeps continuous actions within their bounds: they are clipped, or hyperbolic
            tangents of Gaussian ones.
        iterations: Stop after so many iterations.
        transitions: Stop when so many transitions have been played (default: 25000).
        seed: Random seed.
        set: Change a number of the preset, as discount=0.99; may be repeated. `mdpnewton train ENV
            --help` lists them.
        seeds: Several seeds, as 100-109: a training of its own for each, in a folder of a sweep.
        workers: Number of processes that play episodes; one unless given, or with `--cluster
            local` as many as there are cores. The numbers do not depend on it.
        cluster: Play on a Ray cluster: `auto` for the one that this machine belongs to, `local` to
            start one here, or an address. The numbers do not depend on it.
        restart: Move the training that is in the folder aside and begin a new one.
        tensorboard: Folder for event files, for TensorBoard.
    """

    environment: str = flag(positional=True, metavar="ENV")
    method: str = flag("second_gauss_newton", known=partial(method_names, "sampled", "network"))
    policy: Literal["linear", "rbf", "mlp"] = "rbf"
    actions: Literal["clipped", "squashed"] = "clipped"
    iterations: int | None = flag(None, least=1)
    transitions: int | None = flag(None, least=1)
    seed: int = flag(0, least=0)
    set: tuple[str, ...] = flag((), metavar="NAME=VALUE")
    seeds: str | None = flag(None, metavar="FIRST-LAST")
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    restart: bool = False
    tensorboard: Path | None = flag(None, metavar="FOLDER")


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli.workers import executor_for, modules_of
    from mdpnewton.environments.names import simulator_of
    from mdpnewton.files.identity import MARK

    changes = dict(split_setting(text) for text in options.set)
    _preset(options)  # refuses what can be refused
    reach(options.environment)
    if options.seeds is not None:
        from mdpnewton.cli.sweep import sweep_plan

        return sweep_plan(options, folder)
    modules = modules_of(options.environment)
    executor = executor_for(options.workers, options.cluster, modules)
    simulator = simulator_of(options.environment)
    about = {
        "command": "train",
        "environment": options.environment,
        "method": options.method,
        "policy": options.policy,
        "actions": options.actions,
        "seed": options.seed,
        "version": __version__,
        MARK: RESULTS,
    }
    if changes:  # runs of older versions have none
        about["set"] = changes

    def run(progress: Progress) -> Outcome:
        with executor:
            return _trained(options, folder, _played_by(executor, simulator), progress)

    return Plan(run, title=options.environment, about=about, resumes=True, restart=options.restart)


def _preset(options: Options) -> Any:
    """The preset with the numbers that are set."""
    from mdpnewton.experiments.settings import changed
    from mdpnewton.training.presets import Preset

    changes = dict(split_setting(text) for text in options.set)
    if "squashed" in changes:
        raise ValueError("--set squashed: say --actions squashed or --actions clipped")
    return changed(Preset(squashed=options.actions == "squashed"), changes)


def _played_by(executor: Any, simulator: Any) -> Any:
    """The simulator in chunks that give the same bits whoever plays them."""
    from mdpnewton.simulators import Distributed, GymnasiumSimulator

    # An episode of Gymnasium does not depend on those beside it.
    chunk = None if isinstance(simulator, GymnasiumSimulator) else CHUNK
    return Distributed(simulator, executor, chunk)


def _trained(options: Options, folder: Path, simulator: Any, progress: Progress) -> Outcome:
    from mdpnewton.files.lines import Clock
    from mdpnewton.report.tensorboard import scalars
    from mdpnewton.report.training import as_metrics, shown_metrics
    from mdpnewton.training.train import finished, no_iteration, proceed

    clock = Clock(folder)
    transitions, iterations = options.transitions, options.iterations
    if transitions is None and iterations is None:
        transitions = TRANSITIONS
    total = transitions or iterations or 0
    progress(0, total, "first batch")
    training = _begun(options, folder, simulator)
    clock.go_on(training.iteration)
    with (
        _Saving(folder) as saving,
        _metrics(folder, training).open("a") as lines,
        scalars(options.tensorboard) as log,
    ):

        def after(training: Any) -> None:
            line = as_metrics(training.history[-1])
            if training.restarts and training.restarts[-1] == training.iteration - 1:
                print(f"mdpnewton: warning: {WENT_BACK}", file=sys.stderr)
            clock.note(line["iteration"])
            saving.keep(training)
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            log(line)
            done = line["transitions"] if transitions else line["iteration"] + 1
            progress(done, total, shown_metrics(line))

        if not training.iteration and finished(training, transitions, iterations):
            print(f"mdpnewton: warning: {no_iteration(training)}", file=sys.stderr)
        try:
            if training.chosen is None or not finished(training, transitions, iterations):
                proceed(training, transitions=transitions, iterations=iterations, callback=after)
                saving.keep(training)
        except ValueError as error:
            where = f"The policy of iteration {training.iteration} is in {folder / POLICY}"
            raise ValueError(f"{error} {where}") from error
    progress(total, total, f"playing {FINAL_EPISODES} episodes")
    return _outcome(options, training, folder)


def _begun(options: Options, folder: Path, simulator: Any) -> Any:
    """The training of the folder; a new one if there is none yet."""
    import jax

    from mdpnewton.environments.check import warnings_of
    from mdpnewton.files.states import load_newest
    from mdpnewton.training.state import Training
    from mdpnewton.training.train import begin

    state = load_newest(folder / POLICY)
    if state is not None:
        try:
            return Training.restored(state, simulator)
        except ValueError as error:
            raise ValueError(f"{folder / POLICY}: {error}") from None
    warnings = warnings_of(simulator, jax.random.key(options.seed))
    training = begin(
        simulator,
        options.policy,
        options.seed,
        _preset(options),
        method=options.method,
        environment=options.environment,
    )
    with _Saving(folder) as saving:
        saving.keep(training)
    for warning in warnings:  # now, because the first batch may have ended in an error of its own
        print(f"mdpnewton: warning: {warning}", file=sys.stderr)
    return training


def _outcome(options: Options, training: Any, folder: Path) -> Outcome:
    """The chosen policy on fresh episodes, and the curve on the way to it."""
    import jax

    from mdpnewton.report.replays import episode_of
    from mdpnewton.report.training import draw_training
    from mdpnewton.training.verdict import cut_off, remarks, verdict_on

    key = jax.random.key(options.seed + 10_000)
    played = training.play(key, FINAL_EPISODES)
    x = [one.transitions for one in training.history]
    returns = [one.mean_return for one in training.history]
    results = {
        "environment": options.environment,
        "method": options.method,
        "policy": options.policy,
        "actions": options.actions,
        "seed": options.seed,
        "version": __version__,
        "transitions": training.transitions,
        "return": {"x": x, "mean": returns},
        "final": summarized(training, played),
        "verdict": asdict(verdict_on(training, key, played)),
        "restarts": training.restarts,
        "remarks": [*remarks(training.history), *cut_off(training.simulator, played)],
    }
    return Outcome(
        results,
        table=partial(played_table, results),
        draw=lambda: {
            "learning-curve": draw_training(options.environment, options.method, x, returns)
        },
        replay=lambda: episode_of(options.environment, played),
        files={"policy": folder / POLICY},
        note=f"see it: mdpnewton evaluate {folder} --render",
        interrupted=training.status == "interrupted",
    )


class _Saving:
    """Saves the newest whole iteration of a training now and then, and at the end in any case."""

    def __init__(self, folder: Path):
        self._path = folder / POLICY
        self._state: Any = None
        self._last = time.monotonic()

    def keep(self, training: Any) -> None:
        """Note what the training is after an iteration, and save it if it is time."""
        self._state = training.state()
        if time.monotonic() - self._last >= SECONDS:
            self._save()

    def _save(self) -> None:
        from mdpnewton.files.states import save_state

        if self._state is not None:
            save_state(self._path, self._state, two=True)
        self._state, self._last = None, time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._save()


def _metrics(folder: Path, training: Any) -> Path:
    """The file of metrics, a line per iteration: written anew from what the training knows."""
    from mdpnewton.files.folder import write_whole
    from mdpnewton.report.training import as_metrics

    path = folder / "metrics.jsonl"
    lines = [json.dumps(as_metrics(one)) + "\n" for one in training.history]
    write_whole(path, "".join(lines).encode())
    return path


COMMAND = Command(
    "train",
    "a policy for a Gymnasium environment",
    Options,
    _plan,
    folder="train-{environment}-{policy}-{method}-{seed}-{set}",
    one_thread=True,
    more=preset_help,
)
