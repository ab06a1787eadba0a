"""What moves: the animations of a run folder as sheets of frames, and recorded episodes as data."""

import base64
import io
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mdpnewton.checks import MissingExtraError, required
from mdpnewton.report.page.parts import Part, listed, mapping, numbers, real, text

NAMES = ("arm.gif", "attempts.gif", "replay.gif", "episode.gif")
TITLES = {
    "arm.gif": "The arm under the best policy's torques",
    "attempts.gif": "First attempt and best attempt",
    "replay.gif": "A game with the best weights",
    "episode.gif": "An episode",
}
SIZE = 8 * 2**20  # bytes of a file that is opened
FRAMES = 200
PIXELS = 24_000_000  # of all frames together
STEPS = 1_000  # of an episode or game


def films_in(folder: Path, problems: list[str]) -> list[Part]:
    """The animations of a run folder; what cannot be shown is noted in `problems`."""
    found = []
    for name in NAMES:
        path = folder / name
        try:
            if not path.is_file():
                continue
            if path.stat().st_size > SIZE:
                problems.append(f"{name} is larger than {SIZE >> 20} MB and is not shown.")
                continue
            found.append(_film(name, path.read_bytes()))
        except MissingExtraError as error:
            problems.append(f"{name} is not shown: {error}.")
        except Exception as error:  # whatever Pillow raises for a damaged file
            problems.append(f"{name} cannot be shown ({type(error).__name__}).")
    return found


def _film(name: str, content: bytes) -> Part:
    """All frames side by side and below each other in one picture, which the page cuts up."""
    image = required("PIL.Image", "an animation")
    sequence = required("PIL.ImageSequence", "an animation")
    with image.open(io.BytesIO(content), formats=["GIF"]) as film:
        width, height = film.size
        most = min(FRAMES, max(1, PIXELS // max(width * height, 1)))
        if width * height > PIXELS:
            raise ValueError("the frames are too large")
        frames, durations = [], []
        for frame in sequence.Iterator(film):
            frames.append(frame.convert("RGB"))
            durations.append(real(frame.info.get("duration")) or 60.0)
            if len(frames) == most:
                break
    columns = max(1, min(len(frames), 4096 // width))
    rows = -(-len(frames) // columns)
    sheet = image.new("RGB", (columns * width, rows * height))
    for n, frame in enumerate(frames):
        sheet.paste(frame, (n % columns * width, n // columns * height))
    packed = io.BytesIO()
    sheet.quantize(64, image.Quantize.FASTOCTREE).save(packed, "PNG")
    source = base64.b64encode(packed.getvalue()).decode()
    return {
        "kind": "film",
        "title": TITLES[name],
        "source": f"data:image/png;base64,{source}",
        "width": width,
        "height": height,
        "columns": columns,
        "frames": len(frames),
        "milliseconds": sum(durations) / len(durations),
    }


def scenes_in(replay: Mapping[str, Any]) -> list[Part]:
    """A recorded episode or game, as replay.json holds it."""
    found: list[Part] = []
    for kind, make in (("episode", _episode), ("game", _game)):
        with suppress(TypeError, ValueError):
            scene = make(mapping(replay.get(kind)))
            if scene is not None:
                found.append(scene)
    return found


def _episode(saved: Mapping[str, Any]) -> Part | None:
    """Observations, actions and rewards; a pole is drawn if the file says which number is its."""
    seen = [numbers(row) for row in listed(saved.get("observations"))[:STEPS]]
    acted = [numbers(row) for row in listed(saved.get("actions"))[:STEPS]]
    if len(seen) < 2 or len(acted) != len(seen):
        return None
    return {
        "kind": "episode",
        "title": text(saved.get("title"), "An episode"),
        "pole": [_finite(one) for one in numbers(saved.get("pole"))[: len(seen)]],
        "observations": seen,
        "actions": acted,
        "rewards": numbers(saved.get("rewards"))[: len(seen)],
        "milliseconds": 60,
    }


def _game(saved: Mapping[str, Any]) -> Part | None:
    """Boards as text: `.` is empty, `#` is full, `O` is new; the top row comes first."""
    boards = [text(one) for one in listed(saved.get("boards"))[:STEPS]]
    width, height = real(saved.get("width")), real(saved.get("height"))
    if not boards or width is None or height is None:
        return None
    w, h = int(width), int(height)
    if not (0 < w <= 64 and 0 < h <= 64) or any(len(one) != w * h for one in boards):
        return None
    return {
        "kind": "game",
        "title": text(saved.get("title"), "A game"),
        "width": w,
        "height": h,
        "boards": boards,
        "milliseconds": 150,
    }


def _finite(value: float | None) -> float:
    return 0.0 if value is None else value
