"""What `train` and `evaluate` share: finding environments and trainings, playing, the table."""

import sys
from pathlib import Path
from typing import Any


def reach(environment: Any) -> None:
    """Let `module:Id-v0` find a module in the current folder, as `python -m` would.

    The folder comes last on the path: a file in it never hides a package that is installed.
    """
    here = str(Path.cwd())
    if isinstance(environment, str) and ":" in environment and here not in sys.path:
        sys.path.append(here)


def load_training(path: Path, module: str = "") -> Any:
    """The training that was saved.

    Args:
        path: File of the training.
        module: Module that may be imported if the training's environment is `module:Id-v0`.
    """
    from mdpnewton.files.states import load_newest, load_state
    from mdpnewton.training.state import Training, untrusted_module

    state = load_newest(path) or load_state(path)  # which says that there is no such file
    name = state.get("environment")
    wanted = untrusted_module(name, module) if isinstance(name, str) else ""
    if wanted:
        raise ValueError(
            f"{path}: its environment {name!r} imports the module {wanted!r}, which runs its code; "
            f"if you trust it, say `mdpnewton evaluate --module {wanted}`"
        )
    reach(name)
    try:
        return Training.restored(state, module=module)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def summarized(training: Any, played: Any) -> dict[str, Any]:
    """Returns of the chosen policy on fresh episodes.

    Args:
        training: The training.
        played: The episodes.
    """
    import numpy as np

    returns = played.returns()
    episodes = len(returns)
    with np.errstate(over="ignore", invalid="ignore"):  # rewards may be too large for squares
        spread = returns.std(ddof=1) / episodes**0.5 if episodes > 1 else 0.0
        discounted = played.returns(training.preset.discount).mean()
        mean = float(returns.mean())
    return {
        "mean": mean,
        "stderr": float(spread),
        "discounted_mean": float(discounted),
        "episodes": episodes,
        "point": training.playing.point,
        "greedy": training.playing.greedy,
    }


def played_table(results: dict[str, Any]) -> Any:
    """The table of both commands, and after a training what it is worth."""
    from rich.console import Group

    from mdpnewton.report.tables import new_table

    final = results["final"]
    actions = "most probable actions" if final["greedy"] else "drawn actions"
    table = new_table(f"{results['environment']}, fresh episodes", "", "value")
    table.add_row("policy", f"{final['point']} point, {actions}")
    table.add_row("return", f"{_rounded(final['mean'])} ± {_rounded(final['stderr'])}")
    table.add_row("discounted return", _rounded(final["discounted_mean"]))
    table.add_row("episodes", f"{final['episodes']}")
    table.add_row("transitions of training", f"{results['transitions']:,}")
    table.add_row("method", results["method"].replace("_", " "))
    said = [results["verdict"]["sentence"], *results["remarks"]] if "verdict" in results else []
    return Group(table, *said)


def _rounded(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 1e12 else f"{value:.5g}"
