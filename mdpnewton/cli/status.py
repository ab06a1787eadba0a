"""`mdpnewton status`: how far a run is."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.files.folder import POLICY
from mdpnewton.version import RESULTS

Found = tuple[dict[str, Any], list[str]]  # for `--json`, and lines to show


@dataclass(frozen=True)
class Options:
    """Which run.

    Attributes:
        run: Run folder of a command that goes on when it is repeated.
    """

    run: Path = flag(positional=True, metavar="RUN")


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.experiments import EXPERIMENTS
    from mdpnewton.files.identity import MARK, run_in

    about = run_in(options.run)
    command, made_by = about.get("command", "run"), about.get("version")
    known = command in KINDS and (command != "run" or about.get("experiment") in EXPERIMENTS)
    if not known or about[MARK] != RESULTS:
        raise ValueError(
            f"{options.run}: holds no run of this version; ask mdpnewton {made_by}, which made it"
        )

    def run(progress: Progress) -> Outcome:
        results, lines = KINDS[command](options.run, about)
        written = (options.run / "results.json").is_file()
        lines.append(f"results: {'written' if written else 'not yet; the same command goes on'}")
        return Outcome({**results, "results": written}, lambda: "\n".join(lines))

    return Plan(run, writes=False)


def _experiment(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.cli import jobs
    from mdpnewton.experiments import EXPERIMENTS
    from mdpnewton.jobs import JobFolder

    module = EXPERIMENTS[about["experiment"]].load()
    config = module.Config(**about["settings"])
    found = JobFolder(folder).survey(module.work(config, about["seed"]))
    which = {word: about[word] for word in ("experiment", "scale", "seed")}
    title = f"{about['experiment']}, {about['scale']} scale, seed {about['seed']}"
    return {**which, **jobs.as_json(found)}, [title, jobs.counted(found)]


def _solve(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.cli import jobs
    from mdpnewton.jobs import JobFolder
    from mdpnewton.training.restarts import restarts

    if "nodes" not in about:
        return _planned(folder, about)
    if "gap" in about:
        return _grown(folder, about)
    asked = {word: about[word] for word in ("nodes", "method", "iterations", "seed")}
    found = JobFolder(folder).survey(
        restarts("", "", {}, count=about["restarts"], **asked), read=False
    )
    which = {word: about[word] for word in ("command", "problem", "nodes", "method", "seed")}
    title = f"solve {about['problem']}, {about['nodes']} nodes, seed {about['seed']}"
    return {**which, **jobs.as_json(found)}, [title, jobs.counted(found)]


def _grown(folder: Path, about: dict[str, Any]) -> Found:
    rounds = [path.stem for path in (folder / "jobs").glob("round-*.npz") if "." not in path.stem]
    ended = sum("try" not in name for name in rounds)
    which = {word: about[word] for word in ("command", "problem", "nodes", "method", "seed")}
    title = f"solve {about['problem']}, up to {about['nodes']} nodes, seed {about['seed']}"
    found = {**which, "searches": ended, "tries": len(rounds) - ended}
    return found, [title, f"{ended} searches, {len(rounds) - ended} tries of a new node"]


def _planned(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.cli.solve_mdp import search_kept

    kept = search_kept(folder, about).load()
    iterations = 0 if kept is None else len(kept["search"]["history"])
    which = {word: about[word] for word in ("command", "problem", "criterion", "method")}
    title = f"solve {about['problem']}, {about['criterion']} reward, {about['method']}"
    return {**which, "iterations": iterations}, [title, f"{iterations} iterations"]


def _training(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.files.states import load_newest

    state = load_newest(folder / POLICY)
    iterations = 0 if state is None else state["iteration"]
    transitions = 0 if state is None else state["evaluator"]["memory"]["transitions"]
    which = {word: about[word] for word in ("command", "environment", "method", "seed")}
    found = {**which, "iterations": iterations, "transitions": transitions}
    title = f"train {about['environment']}, {about['method']}, seed {about['seed']}"
    return found, [title, f"{iterations} iterations, {transitions:,} transitions"]


def _tetris(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.jobs import Checkpoint

    kept = Checkpoint(folder / "training.npz").load()
    history = [] if kept is None else kept["training"]["history"]
    spent = 0.0 if kept is None else kept["spent"]
    which = {word: about[word] for word in ("command", "height", "width", "method", "seed")}
    board = f"{about['height']}x{about['width']}"
    title = f"tetris train {board}, {about['method']}, seed {about['seed']}"
    found = {**which, "iterations": len(history), "seconds": spent}
    return found, [title, f"{len(history)} iterations, {spent:.0f} s"]


def _sweep(folder: Path, about: dict[str, Any]) -> Found:
    from mdpnewton.cli import jobs
    from mdpnewton.cli.sweep import work
    from mdpnewton.jobs import JobFolder

    found = JobFolder(folder).survey(work(about), read=False)
    which = {word: about[word] for word in ("command", "environment", "method", "seeds")}
    title = f"train {about['environment']}, {about['method']}, seeds {about['seeds']}"
    return {**which, **jobs.as_json(found)}, [title, jobs.counted(found)]


KINDS: dict[str, Callable[[Path, dict[str, Any]], Found]] = {
    "run": _experiment,
    "solve": _solve,
    "train": _training,
    "sweep": _sweep,
    "tetris train": _tetris,
}
COMMAND = Command("status", "how far a run is: what is done, left and failed", Options, _plan)
