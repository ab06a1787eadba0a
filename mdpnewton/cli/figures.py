"""The figures of an experiment, at the end of its run and anew from what it wrote."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mdpnewton.experiments import EXPERIMENTS, Experiment
from mdpnewton.report.figures import with_note

SHORT = {"quick": "quick scale: too short to judge"}
DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError)


def drawn(row: Experiment, results: Any, config: Any, scale: str) -> Mapping[str, Any]:
    """The figures of results, in the style that is set.

    Args:
        row: The experiment.
        results: Its results.
        config: Its settings.
        scale: Its scale; at quick scale every figure says so.
    """
    return with_note(row.load().draw(results, config), SHORT.get(scale, ""))


def redraw(folder: Path) -> list[Path]:
    """Draw the figures of a run folder again from its config.json and results.json.

    Nothing is computed, and what else is in the folder stays as it is.

    Returns:
        The files that were written.

    Raises:
        ValueError: The folder holds no results of an experiment that this version can draw.
    """
    from mdpnewton.files.folder import write_whole
    from mdpnewton.report.figures import figure_style, rendered

    try:
        about, results = (
            json.loads((folder / f"{name}.json").read_bytes()) for name in ("config", "results")
        )
        row, scale = EXPERIMENTS[about["experiment"]], about["scale"]
        config = replace(row.load().SCALES[scale], **about["settings"])
        with figure_style():
            files = rendered(drawn(row, results, config, scale))
    except DAMAGED as error:
        told = str(error).splitlines()[0] if str(error) else "nothing is said"
        raise ValueError(
            f"{folder}: holds no results of an experiment that this version can draw "
            f"({type(error).__name__}: {told}); name the folder of a finished `run`"
        ) from None
    for name, content in files.items():
        write_whole(folder / name, content)
    return [folder / name for name in files]
