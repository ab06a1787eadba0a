"""Attempts at ball-in-a-cup as a strip of pictures and as an animation."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from mdpnewton.domains.ball_in_cup import BallInCup
from mdpnewton.domains.ball_in_cup.pictures import Camera
from mdpnewton.report.figures import figure_style, new_figure, save_figure
from mdpnewton.report.training import save_animation

STRIP = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.49)  # s: most happens around 0.7
FILM = 0.05  # s between two frames, shown twice as slowly
PIXELS = 240


def save_attempts(strip: Path, film: Path, attempts: Mapping[str, np.ndarray]) -> None:
    """Draw movements off-screen.

    Args:
        strip: File for the strip, which has one row per attempt.
        film: File for the animation, which shows the attempts side by side.
        attempts: Weights of the primitives, by the title of the attempt.
    """
    game = BallInCup()
    played = game.play(np.array(list(attempts.values())), keep=True)
    states = played.states
    assert states is not None
    camera = Camera(game.model, PIXELS, PIXELS)
    try:
        pictures = [[camera.picture(one[round(t / game.dt)]) for t in STRIP] for one in states]
        every = round(FILM / game.dt)
        moments = zip(*(one[::every] for one in states), strict=True)
        frames = [np.hstack([camera.picture(state) for state in moment]) for moment in moments]
    finally:
        camera.close()
    with figure_style():
        figure, axes = new_figure(len(attempts), 1, squeeze=False)
        figure.set_size_inches(1.5 * len(STRIP), 1.8 * len(attempts))
        for axis, name, row, caught in zip(
            axes[:, 0], attempts, pictures, played.caught, strict=True
        ):
            axis.imshow(np.hstack(row))
            axis.set_axis_off()
            axis.set_title(f"{name}: {'caught' if caught else 'missed'}", loc="left", pad=3)
            for column, t in enumerate(STRIP):
                axis.text(PIXELS * column + 8, 24, f"{t:.1f} s", fontsize=8)
        save_figure(strip, figure, 160)
    save_animation(film, frames, round(2000 * FILM))
