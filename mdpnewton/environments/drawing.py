"""Small pictures of the domains, drawn at twice the size and scaled down for smooth edges."""

from typing import Any

import numpy as np

from mdpnewton.checks import required

SIZE, FINE = 320, 2
INK, STEEL, BLUE, RED, PAPER = "#222222", "#9aa5b1", "#1f77b4", "#d62728", "#ffffff"


def cart_pole_picture(angle: float, push: float) -> np.ndarray:
    """A picture of the pole; the cart stays in the middle.

    Args:
        angle: Angle of the pole from the upright, in radians.
        push: Force as a share of the largest, shown as an arrow.
    """
    picture, draw, s = _sheet()
    x, y, reach = 0.5 * s, 0.55 * s, 0.36 * s
    draw.line([(0.08 * s, y + 0.07 * s), (0.92 * s, y + 0.07 * s)], fill=STEEL, width=s // 150)
    draw.rounded_rectangle(
        [x - 0.11 * s, y - 0.05 * s, x + 0.11 * s, y + 0.05 * s], s // 60, fill=INK
    )
    tip = (x + reach * np.sin(angle), y - reach * np.cos(angle))
    draw.line([(x, y), tip], fill=BLUE, width=s // 32)
    for (u, v), r in (((x, y), 0.022 * s), (tip, 0.022 * s)):
        draw.ellipse([u - r, v - r, u + r, v + r], fill=STEEL if (u, v) == (x, y) else BLUE)
    end = x + 0.3 * s * float(np.clip(push, -1, 1))
    level = 0.8 * s
    if abs(end - x) > 0.02 * s:
        back = np.sign(end - x) * 0.03 * s
        draw.line([(x, level), (end - back, level)], fill=RED, width=s // 70)
        draw.polygon(
            [(end, level), (end - back, level - 0.02 * s), (end - back, level + 0.02 * s)], fill=RED
        )
    return _halved(picture)


def phase_picture(trail: np.ndarray, radius: float) -> np.ndarray:
    """The path in position (to the right) and velocity (upwards), and the target circle."""
    picture, draw, s = _sheet()

    def place(point: np.ndarray) -> tuple[float, float]:
        x, y = np.clip(point, -1.5, 1.5)
        return (0.5 + x / 3) * s, (0.5 - y / 3) * s

    draw.line([(0, s / 2), (s, s / 2)], fill=STEEL, width=s // 300)
    draw.line([(s / 2, 0), (s / 2, s)], fill=STEEL, width=s // 300)
    r = radius / 3 * s
    draw.ellipse([s / 2 - r, s / 2 - r, s / 2 + r, s / 2 + r], outline=RED, width=s // 150)
    points = [place(point) for point in trail]
    if len(points) > 1:
        draw.line(points, fill=BLUE, width=s // 150, joint="curve")
    u, v = points[-1]
    d = 0.015 * s
    draw.ellipse([u - d, v - d, u + d, v + d], fill=INK)
    return _halved(picture)


def _sheet() -> tuple[Any, Any, int]:
    side = SIZE * FINE
    picture = required("PIL.Image", "a picture").new("RGB", (side, side), PAPER)
    return picture, required("PIL.ImageDraw", "a picture").Draw(picture), side


def _halved(picture: Any) -> np.ndarray:
    smooth = required("PIL.Image", "a picture").Resampling.LANCZOS
    return np.asarray(picture.resize((SIZE, SIZE), smooth))
