"""`mdpnewton train`: a policy for a Gymnasium environment."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tables import method_names
from mdpnewton.cli.trainings import load_training, played, played_table, reach
from mdpnewton.version import __version__

FINAL_EPISODES = 20
TRANSITIONS = 25_000  # where nothing else is said


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
        iterations: Stop after so many iterations.
        transitions: Stop when so many transitions have been played (default: 25000).
        seed: Random seed.
        resume: Go on with the training in the run folder.
    """

    environment: str = flag(positional=True, metavar="ENV")
    method: str = flag("second_gauss_newton", known=partial(method_names, "sampled", "network"))
    policy: Literal["linear", "rbf", "mlp"] = "rbf"
    iterations: int | None = flag(None, least=1)
    transitions: int | None = flag(None, least=1)
    seed: int = flag(0, least=0)
    resume: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    reach(options.environment)
    begin: Callable[[], Any]
    if options.resume:
        begin = partial(_resumed, folder, _asked_for(options, folder))
    else:
        from mdpnewton.environments.names import simulator_of

        begin = partial(_begun, options, folder, simulator_of(options.environment))
    about = {
        "command": "train",
        "environment": options.environment,
        "method": options.method,
        "seed": options.seed,
    }
    run = partial(_trained, options, folder, begin)
    return Plan(run, title=options.environment, about=about)


def _begun(options: Options, folder: Path, simulator: Any) -> Any:
    from mdpnewton.training.train import begin

    _metrics(folder).unlink(missing_ok=True)
    training = begin(
        simulator,
        options.policy,
        options.seed,
        method=options.method,
        environment=options.environment,
    )
    _save(folder, training)
    return training


def _asked_for(options: Options, folder: Path) -> Any:
    """The training of the folder, if it is the one that was asked for."""
    training = load_training(folder / "policy.npz", options.environment.rpartition(":")[0])
    for key, said, value in (
        ("environment", training.environment, options.environment),
        ("method", training.method, options.method),
        ("kind", training.kind, options.policy),
        ("seed", training.seed, options.seed),
    ):
        if said != value:
            raise ValueError(
                f"--resume: {folder} was trained with {key} {said!r}, not {value!r}; say the "
                f"same again, or train in another folder"
            )
    return training


def _resumed(folder: Path, training: Any) -> Any:
    metrics = _metrics(folder)  # without lines that the saved policy has not seen
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    metrics.write_text("".join(lines[: training.iteration]))
    return training


def _trained(
    options: Options, folder: Path, begin: Callable[[], Any], progress: Progress
) -> Outcome:
    from mdpnewton.report.training import as_metrics, shown_metrics
    from mdpnewton.training.train import no_iteration, proceed

    transitions, iterations = options.transitions, options.iterations
    if transitions is None and iterations is None:
        transitions = TRANSITIONS
    total = transitions or iterations or 0
    progress(0, total, "first batch")
    training = begin()
    with _metrics(folder).open("a") as lines:

        def after(training: Any) -> None:
            line = as_metrics(training.history[-1])
            _save(folder, training)
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            done = line["transitions"] if transitions else line["iteration"] + 1
            progress(done, total, shown_metrics(line))

        if not training.iteration and _finished(training, transitions, iterations):
            print(f"mdpnewton: warning: {no_iteration(training)}", file=sys.stderr)
        try:
            if not _finished(training, transitions, iterations):
                proceed(training, transitions=transitions, iterations=iterations, callback=after)
        except ValueError as error:
            where = f"The policy of iteration {training.iteration} is in {folder / 'policy.npz'}"
            raise ValueError(f"{error} {where}") from error
    progress(total, total, f"playing {FINAL_EPISODES} episodes")
    return _outcome(options, training, folder)


def _outcome(options: Options, training: Any, folder: Path) -> Outcome:
    """The saved policy on fresh episodes, and the curve on the way to it."""
    from mdpnewton.report.training import draw_training

    lines = [json.loads(line) for line in _metrics(folder).read_text().splitlines()]
    x = [line["transitions"] for line in lines]
    returns = [line["return"] for line in lines]
    results = {
        "environment": options.environment,
        "method": options.method,
        "policy": options.policy,
        "seed": options.seed,
        "version": __version__,
        "transitions": training.evaluator.memory.transitions,
        "return": {"x": x, "mean": returns},
        "final": played(training, options.seed + 10_000, FINAL_EPISODES),
    }
    return Outcome(
        results,
        table=partial(played_table, results),
        draw=lambda: {
            "learning-curve": draw_training(options.environment, options.method, x, returns)
        },
        files={"policy": folder / "policy.npz"},
        note=f"see it: mdpnewton evaluate {folder} --render",
        interrupted=training.status == "interrupted",
    )


def _finished(training: Any, transitions: int | None, iterations: int | None) -> bool:
    done = training.evaluator.memory.transitions
    return bool(
        (transitions is not None and done >= transitions)
        or (iterations is not None and training.iteration >= iterations)
    )


def _save(folder: Path, training: Any) -> None:
    from mdpnewton.files.states import save_state

    save_state(folder / "policy.npz", training.state())


def _metrics(folder: Path) -> Path:
    return folder / "metrics.jsonl"


COMMAND = Command(
    "train",
    "a policy for a Gymnasium environment",
    Options,
    _plan,
    folder="train-{environment}-{seed}",
)
