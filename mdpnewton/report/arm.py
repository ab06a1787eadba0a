"""The movement of the arm of Section 6.4 as one picture of many poses, or as a film."""

from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from mdpnewton.domains.arm import Arm
from mdpnewton.report.figures import figure_style, save_figure
from mdpnewton.report.training import save_animation

POSES, FRAMES, LAST = 12, 60, 8  # per picture; per film; how often the last frame is repeated
FINE = 10  # points per curve from one state to the next
INCHES, PIXELS = 4.8, 480
INK, TARGET, GROUND = "#222222", "#d62728", "#b8c0c8"


def arm_picture(path: str | Path, arm: Arm, states: ArrayLike, target: ArrayLike) -> None:
    """Draw poses from light (early) to dark (late), the end effector's path and the dashed target.

    The poses are spaced evenly along the path, not in time, so an arm that has arrived is drawn
    once.

    Args:
        path: File to write. Its ending determines the format.
        arm: The arm.
        states: Angles and velocities, or angles alone, one row per instant.
        target: Angles to reach, shape (N,).
    """
    ways, goal = _ways(arm, states, target)
    with figure_style():
        figure, axis = _stage(ways, goal)
        shown = _along(ways)
        shades = colormaps["Blues"](np.linspace(0.18, 0.8, len(shown)))
        for number, index in enumerate(shown[:-1]):
            _draw_arm(axis, ways[index], shades[number], width=4, order=2 + number / POSES)
        _draw_arm(axis, ways[-1], shades[-1], width=6, order=4)
        axis.plot(*ways[:, -1].T, color=INK, linewidth=0.9, alpha=0.7, zorder=5)
        axis.plot(*ways[0, -1], **_ring(INK, 7), zorder=6)
        axis.plot(*ways[-1, -1], "o", color=INK, markersize=6, zorder=6)
        handles = [
            Line2D([], [], **_ring(INK, 7), label="start"),
            Line2D([], [], linestyle="", marker="o", color=INK, markersize=6, label="end"),
            Line2D([], [], **_dashes(), label="target"),
        ]
        _add_legend(axis, handles)
        save_figure(path, figure, 200)


def arm_film(
    path: str | Path,
    arm: Arm,
    states: ArrayLike,
    target: ArrayLike,
    seconds_per_frame: float = 0.08,
) -> None:
    """Write the movement as a repeating GIF of at most 60 frames, spaced evenly over the states.

    Args:
        path: File to write.
        arm: The arm.
        states: Angles and velocities, or angles alone, one row per instant.
        target: Angles to reach, shape (N,).
        seconds_per_frame: How long a frame is shown. The last frame stays longer.
    """
    if not seconds_per_frame >= 0.02:
        raise ValueError(
            f"`arm_film(seconds_per_frame=...)` must be at least 0.02, got {seconds_per_frame}."
        )
    ways, goal = _ways(arm, states, target)
    frames: list[np.ndarray] = []
    with figure_style():
        figure, axis = _stage(ways, goal)
        canvas = FigureCanvasAgg(figure)
        figure.set_dpi(PIXELS / INCHES)
        _draw_arm(axis, ways[0], GROUND, width=4, order=2)
        moving = _draw_arm(axis, ways[0], colormaps["Blues"](0.8), width=6, order=4)
        (trail,) = axis.plot([], [], color=INK, linewidth=1, zorder=5)
        (tip,) = axis.plot([], [], "o", color=INK, markersize=6, zorder=6)
        handles = [
            Line2D([], [], color=GROUND, linewidth=4, label="start"),
            Line2D([], [], **_dashes(), label="target"),
        ]
        _add_legend(axis, handles)
        instants = 1 + (len(ways) - 1) // FINE
        for index in FINE * _even(instants, FRAMES):
            for line in moving:
                line.set_data(*ways[index].T)
            trail.set_data(*ways[: index + 1, -1].T)
            tip.set_data(*ways[index, -1:].T)
            canvas.draw()
            frames.append(np.asarray(canvas.buffer_rgba())[..., :3].copy())
    # Pillow merges equal frames into one long frame.
    frames += [frames[-1]] * LAST
    save_animation(Path(path), frames, milliseconds=round(1000 * seconds_per_frame))


def _ways(arm: Arm, states: ArrayLike, target: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """The joints at and between all instants, shape (., N+1, 2), and the joints at the target."""
    q, goal = np.asarray(states, dtype=float), np.asarray(target, dtype=float)
    if q.ndim != 2 or q.shape[1] not in (arm.links, 2 * arm.links) or not len(q):
        raise ValueError(
            f"`states` needs rows of {2 * arm.links} or {arm.links} numbers, got shape {q.shape}."
        )
    if goal.shape != (arm.links,):
        raise ValueError(f"`target` needs shape ({arm.links},), got {goal.shape}.")
    if not (np.isfinite(q).all() and np.isfinite(goal).all()):
        raise ValueError("`states` and `target` must be finite to be drawn.")
    q = q[:, : arm.links]
    if len(q) > 1:
        instants = np.linspace(0, len(q) - 1, FINE * (len(q) - 1) + 1)
        q = CubicSpline(np.arange(len(q)), q)(instants)
    joints = np.asarray(jax.jit(jax.vmap(arm.joints))(np.vstack([goal, q])))
    return joints[1:], joints[0]


def _even(count: int, most: int) -> np.ndarray:
    """At most `most` evenly spaced numbers below `count`, including the first and the last."""
    return np.unique(np.linspace(0, count - 1, most).round().astype(int))


def _along(ways: np.ndarray) -> np.ndarray:
    """The instants of `POSES` poses that are spaced evenly along the path of all joints."""
    moved = np.linalg.norm(np.diff(ways, axis=0), axis=2).sum(axis=1)
    way = np.concatenate([[0], np.cumsum(moved)])
    near = np.searchsorted(way, np.linspace(0, way[-1], POSES)).clip(max=len(ways) - 1)
    return np.unique(np.concatenate([near, [0, len(ways) - 1]]))


def _stage(ways: np.ndarray, goal: np.ndarray) -> tuple[Figure, Axes]:
    """A square figure that holds every pose, with the base and the target drawn."""
    figure = Figure(figsize=(INCHES, INCHES))
    axis = figure.add_axes((0, 0.06, 1, 0.94))
    points = np.vstack([ways.reshape(-1, 2), goal, [[0, 0]]])
    low, high = points.min(axis=0), points.max(axis=0)
    middle, half = (low + high) / 2, 0.56 * max(high - low)
    axis.set_xlim(middle[0] - half, middle[0] + half)
    axis.set_ylim(middle[1] - half, middle[1] + half)
    axis.set_aspect("equal")
    axis.axis("off")
    size = 0.07 * half
    foot = [(0, 0), (-size, -1.6 * size), (size, -1.6 * size)]
    axis.add_patch(Polygon(foot, closed=True, color=GROUND, zorder=1))
    level = [-1.6 * size, -1.6 * size]
    axis.plot([-2.2 * size, 2.2 * size], level, color=GROUND, linewidth=2.5, zorder=1)
    axis.plot(*goal.T, **_dashes(), zorder=7)
    axis.plot(*goal[-1], **_ring(TARGET, 10), zorder=7)
    return figure, axis


def _draw_arm(axis: Axes, joints: np.ndarray, color: Any, width: float, order: float) -> list:
    """Draw links with round ends, and their joints as white points."""
    options: dict[str, Any] = {"solid_capstyle": "round", "solid_joinstyle": "round"}
    (links,) = axis.plot(*joints.T, color=color, linewidth=width, zorder=order, **options)
    (points,) = axis.plot(*joints.T, "o", color="white", markersize=0.5 * width, zorder=order)
    return [links, points]


def _add_legend(axis: Axes, handles: list[Line2D]) -> None:
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.02)}
    axis.legend(handles=handles, ncols=len(handles), handlelength=2.4, **place)


def _ring(color: str, size: float) -> dict[str, Any]:
    line = {"linestyle": "", "marker": "o", "fillstyle": "none"}
    return {**line, "color": color, "markeredgewidth": 1.6, "markersize": size}


def _dashes() -> dict[str, Any]:
    return {"color": TARGET, "linestyle": (0, (3, 1.6)), "linewidth": 1.8}
