"""What training shows: one line per iteration, a learning curve, an animation."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdpnewton.checks import required
from mdpnewton.files.folder import write_whole
from mdpnewton.report.figures import legend_below, look, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 1e100  # squares of what is drawn must not overflow


def as_metrics(progress: Any) -> dict[str, Any]:
    """One iteration as JSON; unknown values are null."""
    record = record_metrics(progress.record)
    about = {"transitions": progress.transitions, "return": progress.mean_return}
    return {"iteration": record["iteration"], **_finite(about), **record}


def record_metrics(record: Any) -> dict[str, Any]:
    """One iteration of a search as JSON; unknown values are null."""
    numbers = {
        "iteration": record.iteration,
        "objective": record.objective,
        "accepted": record.step.accepted,
        "reason": record.step.reason,
        "kl": record.step.divergence,
        "step": record.step.size,
        "residual": record.report.residual,
        "solver_iterations": record.report.iterations,
        "smallest_curvature": record.report.smallest_curvature,
        "status": record.report.status,
        "gradient_norm": record.gradient_norm,
        "fisher_damping": record.report.fisher_damping,
        "ridge": record.report.ridge,
    }
    at = record.report.region
    if np.isfinite(at.radius):  # the certificate of a step that a region limits
        numbers |= {
            "radius": at.radius,
            "gain": at.gain,
            "multiplier": at.multiplier,
            "boundary": at.boundary,
            "ratio": record.step.ratio,
        }
    return _finite(numbers)


def certificate(history: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    """What the last step within a region is known to be, in rows of a table; none without one.

    Args:
        history: Iterations as `record_metrics` gives them.
    """
    known = [one for one in history if one.get("radius") is not None]
    if not known:
        return []
    last, undone = known[-1], sum(not one["accepted"] for one in known)
    where = "limited by it" if last["boundary"] else "inside"
    return [
        ("steps undone", f"{undone} of {len(known)}"),
        ("last region", f"{last['radius']:.3g}, the step is {where}"),
        ("its residual", f"{last['residual']:.1e}"),
        ("smallest curvature met", f"{last['smallest_curvature']:.3g}"),
        ("multiplier", f"{last['multiplier']:.3g}"),
        ("gain of the model", f"{last['gain']:.3g}"),
    ]


def tetris_metrics(one: Any) -> dict[str, Any]:
    """One iteration of a training of Tetris weights as JSON; unknown values are null."""
    return _finite(
        {
            "iteration": one.number - 1,
            "seconds": one.seconds,
            "height": one.height,
            "games": one.games,
            "pieces": one.pieces,
            "lines": one.lines,
            "stderr": one.stderr,
            "accepted": one.kept,
            "divergence": one.divergence,
            "residual": one.report.residual,
            "smallest_curvature": one.report.smallest_curvature,
            "status": one.report.status,
        }
    )


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in numbers.items()
    }


def shown_metrics(line: dict[str, Any]) -> str:
    """What the progress says of an iteration, in 56 characters or less.

    Args:
        line: What `as_metrics` gives.
    """
    kl = "-" if line["kl"] is None else f"{line['kl']:.2f}"
    residual = "-" if line["residual"] is None else f"{line['residual']:.0e}"
    back = "" if line["accepted"] else ", undone"
    mean = "-" if line["return"] is None else f"{line['return']:.5g}"
    size = "-" if line["step"] is None else f"{line['step']:.2g}"
    return f"return {mean} kl {kl} step {size} residual {residual}{back}"


def draw_training(
    environment: str,
    method: str,
    x: Sequence[float],
    returns: Sequence[float | None],
    counted: str = "transitions",
    shown: str = "return, exploring",
) -> Figure:
    """Draw the return of every batch, and its mean over the last five batches.

    Returns that are unknown or too large to draw are left out.
    """
    figure, axis = new_figure()
    drawn = np.array([np.nan if each is None else each for each in returns], float)
    drawn[np.abs(drawn) > LARGEST] = np.nan
    axis.plot(x, drawn, ".", color="0.6", label="batch")
    if len(drawn) >= 5:
        smooth = np.convolve(drawn, np.ones(5) / 5, "valid")
        axis.plot(x[4:], smooth, color=look(method).color, label="mean of five batches")
    axis.set_xlabel(counted)
    axis.set_ylabel(shown)
    axis.set_title(f"{environment}, {method.replace('_', ' ')}")
    legend_below(figure, [axis])
    return figure


def save_animation(path: Path, frames: list[np.ndarray], milliseconds: int = 60) -> None:
    """Write frames as a repeating GIF."""
    image = required("PIL.Image", "an animation")
    pictures = [image.fromarray(np.asarray(frame, np.uint8)) for frame in frames]
    small = [picture.quantize(64) for picture in pictures]
    content = io.BytesIO()
    more = {"append_images": small[1:], "duration": milliseconds, "loop": 0, "optimize": True}
    small[0].save(content, "GIF", save_all=True, **more)
    write_whole(path, content.getvalue())
