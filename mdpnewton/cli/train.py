"""`mdpnewton train` and `mdpnewton evaluate`."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdpnewton.cli.methods import DEFAULT, HELP, check_method

POLICIES = ("linear", "rbf", "mlp")
FINAL_EPISODES = 20


def add_commands(commands: Any) -> None:
    """The two commands."""
    training = commands.add_parser("train", help="a policy for a Gymnasium environment")
    training.add_argument(
        "environment",
        metavar="ENV",
        help="a Gymnasium id, module:Id-v0 to import the module first, or cartpole, navigation",
    )
    training.add_argument("--method", default=DEFAULT, help=HELP)
    training.add_argument("--policy", choices=POLICIES, default="rbf")
    training.add_argument("--iterations", type=int, help="stop after so many")
    training.add_argument(
        "--transitions", type=int, help="stop when so many were played (default: 25000)"
    )
    training.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")
    training.add_argument("--out", type=Path, help="run folder (default: runs/train-ENV-SEED)")
    training.add_argument(
        "--resume", action="store_true", help="go on with the training in the run folder"
    )
    training.add_argument("--json", action="store_true", help="print JSON and nothing else")
    training.set_defaults(command=_train)

    playing = commands.add_parser("evaluate", help="play the policy of a run folder")
    playing.add_argument("run", type=Path, metavar="RUN", help="folder of `mdpnewton train`")
    playing.add_argument("--episodes", type=int, default=100, help="how many (default: 100)")
    playing.add_argument("--seed", type=int, default=1, help="of the episodes (default: 1)")
    playing.add_argument("--render", action="store_true", help="write an episode as a GIF")
    playing.add_argument("--json", action="store_true", help="print JSON and nothing else")
    playing.set_defaults(command=_evaluate)


def _train(options: argparse.Namespace) -> None:
    _positive(options, "iterations", "transitions")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}")
    check_method(options.method, "network" if options.policy == "mlp" else "sampled")
    from mdpnewton.environments.names import simulator_of
    from mdpnewton.files.folder import prepare
    from mdpnewton.files.states import save_state
    from mdpnewton.training.train import begin, proceed

    name = options.environment
    folder = options.out or Path("runs") / f"train-{_plain(name)}-{options.seed}"
    saved, metrics = folder / "policy.npz", folder / "metrics.jsonl"
    if options.resume:
        training = _loaded(saved)
        for key, said, value in (
            ("environment", training.environment, name),
            ("method", training.method, options.method),
            ("kind", training.kind, options.policy),
            ("seed", training.seed, options.seed),
        ):
            if said != value:
                raise ValueError(
                    f"--resume: {folder} was trained with {key} {said!r}, not {value!r}; say the "
                    f"same again, or train in another folder"
                )
        _cut(metrics, training.iteration)
    else:
        simulator = simulator_of(name)
        prepare(folder)
        metrics.unlink(missing_ok=True)
        training = begin(
            simulator, options.policy, options.seed, method=options.method, environment=name
        )
        save_state(saved, training.state())
    transitions = options.transitions
    if transitions is None and options.iterations is None:
        transitions = 25_000
    from mdpnewton.report.training import as_metrics

    with _progress(options, transitions) as show, metrics.open("a") as lines:

        def after(training: Any) -> None:
            line = as_metrics(training.history[-1])
            save_state(saved, training.state())
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            show(line)

        try:
            if not _finished(training, transitions, options.iterations):
                proceed(
                    training,
                    transitions=transitions,
                    iterations=options.iterations,
                    callback=after,
                )
        except ValueError as error:
            where = f"The policy of iteration {training.iteration} is in {saved}"
            raise ValueError(f"{error} {where}") from error
    _finish(options, training, folder)
    if training.status == "interrupted":
        raise KeyboardInterrupt


def _loaded(path: Path) -> Any:
    """The training that was saved."""
    from mdpnewton.files.states import load_state
    from mdpnewton.training.state import Training

    state = load_state(path)
    try:
        return Training.restored(state)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _finished(training: Any, transitions: int | None, iterations: int | None) -> bool:
    played = training.evaluator.memory.transitions
    return bool(
        (transitions is not None and played >= transitions)
        or (iterations is not None and training.iteration >= iterations)
    )


def _finish(options: argparse.Namespace, training: Any, folder: Path) -> None:
    """The saved policy on fresh episodes, the results and the figure."""
    from mdpnewton.files.folder import to_json, write_run
    from mdpnewton.report.figures import figure_style, rendered
    from mdpnewton.report.training import draw_training
    from mdpnewton.version import __version__

    text = (folder / "metrics.jsonl").read_text().splitlines()
    lines = [json.loads(line) for line in text]
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
        "final": _played(training, options.seed + 10_000, FINAL_EPISODES),
    }
    with figure_style():
        figure = draw_training(options.environment, options.method, x, returns)
    settings = {"command": "train", "environment": options.environment, "method": options.method}
    pictures = rendered({"learning-curve": figure})
    write_run(folder, {**settings, "seed": options.seed}, results, pictures)
    if options.json:
        print(to_json(results), end="")
        return
    _show(results, {"policy": folder / "policy.npz", "figure": folder / "learning-curve.png"})
    print(f"see it: mdpnewton evaluate {folder} --render")


def _show(results: dict[str, Any], files: dict[str, Path]) -> None:
    """The table of both commands, and where the files are."""
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    final = results["final"]
    table = new_table(f"{results['environment']}, greedy policy on fresh episodes", "", "value")
    table.add_row("return", f"{final['mean']:.2f} ± {final['stderr']:.2f}")
    table.add_row("discounted return", f"{final['discounted_mean']:.2f}")
    table.add_row("episodes", f"{final['episodes']}")
    table.add_row("transitions of training", f"{results['transitions']:,}")
    table.add_row("method", results["method"].replace("_", " "))
    Console().print(table)
    for name, path in files.items():
        print(f"{name}: {path}")


def _evaluate(options: argparse.Namespace) -> None:
    _positive(options, "episodes")
    from mdpnewton.environments.names import environment_id
    from mdpnewton.files.folder import to_json
    from mdpnewton.report.training import save_animation

    training = _loaded(options.run / "policy.npz")
    results = {
        "environment": training.environment,
        "method": training.method,
        "transitions": training.evaluator.memory.transitions,
        "final": _played(training, options.seed, options.episodes),
    }
    if options.render:
        import jax

        from mdpnewton.simulators import GymnasiumSimulator

        stage = GymnasiumSimulator(environment_id(training.environment), unit_actions=True)
        frames = stage.frames(jax.random.key(options.seed), training.policy, training.best)
        results["animation"] = str(options.run / "episode.gif")
        save_animation(options.run / "episode.gif", frames)
    if options.json:
        print(to_json(results), end="")
        return
    _show(results, {"animation": options.run / "episode.gif"} if options.render else {})


def _played(training: Any, seed: int, episodes: int) -> dict[str, Any]:
    import jax
    from rich.console import Console

    with Console(stderr=True).status(f"playing {episodes} episodes"):
        played = training.play(jax.random.key(seed), episodes)
    returns = played.returns()
    spread = returns.std(ddof=1) / episodes**0.5 if episodes > 1 else 0.0
    return {
        "mean": float(returns.mean()),
        "stderr": float(spread),
        "discounted_mean": float(played.returns(training.preset.discount).mean()),
        "episodes": episodes,
    }


@contextmanager
def _progress(options: argparse.Namespace, transitions: int | None) -> Iterator[Any]:
    """A bar with the last iteration's numbers, on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (BarColumn(20), TextColumn("{task.description}"), TimeElapsedColumn())
    quiet = options.json or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task("first batch", total=transitions or options.iterations)

        def show(line: dict[str, Any]) -> None:
            done = line["transitions"] if transitions else line["iteration"] + 1
            kl = "-" if line["kl"] is None else f"{line['kl']:.2f}"
            mark = "" if line["accepted"] else " (taken back)"
            text = (
                f"return {line['return']:.1f}{mark} kl {kl} step {line['step']:.2g} residual "
                f"{line['residual']:.0e} curvature {line['smallest_curvature'] or 0:.1e}"
            )
            bar.update(task, completed=done, description=text)

        yield show


def _cut(metrics: Path, iterations: int) -> None:
    """Leave only the lines of iterations that the saved policy has seen."""
    lines = metrics.read_text().splitlines(keepends=True) if metrics.exists() else []
    metrics.write_text("".join(lines[:iterations]))


def _positive(options: argparse.Namespace, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
