"""What a page is made of, as plain data: charts, tables, pictures of matrices, graphs, films.

The script of the page draws them, with `textContent` alone; nothing here is HTML. What comes in is
the content of files that nobody has vouched for: `numbers` and its kin give something harmless for
whatever they get.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Part = dict[str, Any]

POINTS = 1_500  # per curve
RUNS = 100  # single runs per curve
LARGEST = 1e100  # what is drawn must not overflow


def chart(
    title: str,
    x: str,
    y: str,
    curves: Sequence[Part],
    *,
    log: bool = False,
    signed_log: bool = False,
    levels: Sequence[Part] = (),
    sync: str = "",
    note: str = "",
) -> Part:
    """Curves over a common axis.

    Args:
        title: Title.
        x: What the horizontal axis counts.
        y: What the vertical axis measures.
        curves: What `curve` gives.
        log: Whether the vertical axis is logarithmic, if all values allow it.
        signed_log: Whether it is logarithmic on both sides of zero.
        levels: Horizontal lines: what `level` gives.
        sync: Charts with the same text share their cursor and their zoom.
        note: A sentence below.
    """
    drawn = [one for one in curves if any(value is not None for value in one["y"])]
    every = [v for one in drawn for v in one["y"] if v is not None]
    scale = "log" if log and every and min(every) > 0 else "asinh" if signed_log or log else ""
    if scale == "asinh":
        scale = f"asinh {_small(every):.3g}"
    return {
        "kind": "chart",
        "title": title,
        "x": x,
        "y": y,
        "curves": drawn,
        "scale": scale,
        "levels": [one for one in levels if one["y"] is not None],
        "sync": sync,
        "note": note,
    }


def curve(
    name: str,
    x: Any,
    y: Any,
    low: Any = None,
    high: Any = None,
    runs: Sequence[Any] = (),
    points: bool = False,
) -> Part:
    """A curve, perhaps with a band and with the single runs behind it, thinned to what is seen."""
    xs, ys = numbers(x), numbers(y)
    length = min(len(xs), len(ys))
    step = max(1, -(-length // POINTS))
    kept = [*range(0, length, step)]
    if length and kept[-1] != length - 1:
        kept.append(length - 1)

    def thinned(values: Any) -> list[float | None]:
        every = numbers(values)
        return [every[n] for n in kept] if len(every) >= length else []

    return {
        "name": name,
        "x": thinned(xs),
        "y": thinned(ys),
        "low": thinned(low),
        "high": thinned(high),
        "runs": [found for found in map(thinned, list(runs)[:RUNS]) if found],
        "points": points,
    }


def level(name: str, y: Any) -> Part:
    """A horizontal line."""
    return {"name": name, "y": real(y)}


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], note: str = "") -> Part:
    """A table; numbers are shown with six digits."""
    cells = [[each if isinstance(each, str) else told(each) for each in row] for row in rows]
    return {"kind": "table", "title": title, "head": list(head), "rows": cells, "note": note}


def heat(title: str, names: Sequence[str], matrix: Any, most: float, note: str = "") -> Part:
    """A matrix in colours, from minus `most` to `most`, with the names of its rows and columns."""
    return {
        "kind": "heat",
        "title": title,
        "names": list(names),
        "values": [[rounded(each) for each in row] for row in np.asarray(matrix, float).tolist()],
        "most": most,
        "note": note,
    }


def words(*sentences: str, title: str = "") -> Part:
    """Sentences."""
    return {"kind": "words", "title": title, "sentences": [one for one in sentences if one]}


def section(title: str, parts: Sequence[Part | None]) -> Part:
    """Parts under a heading; those that are None or empty are left out."""
    empty = {"chart": "curves", "table": "rows", "words": "sentences", "paths": "ways"}
    kept = [one for one in parts if one and one.get(empty.get(one["kind"], "kind"))]
    return {"title": title, "parts": kept}


# What can be read off data of any form


def real(value: Any) -> float | None:
    """The number, or None if it is none that can be drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None  # NaN is not less than anything


def rounded(value: Any) -> float | None:
    """The number with six digits."""
    found = real(value)
    return None if found is None else float(f"{found:.6g}")


def numbers(value: Any) -> list[float | None]:
    """The numbers of a list; anything else has none."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if not isinstance(value, list | tuple) or any(isinstance(one, list | dict) for one in value):
        return []
    return [rounded(one) for one in value]


def known(value: Any) -> list[float]:
    """The numbers of a list, without those that are not there."""
    return [one for one in numbers(value) if one is not None]


def mapping(value: Any) -> Mapping[str, Any]:
    """The object; anything else is empty."""
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> list[Any]:
    """The list; anything else is empty."""
    return list(value) if isinstance(value, list | tuple) else []


def text(value: Any, otherwise: str = "") -> str:
    """The text; anything else is what is given instead."""
    return value if isinstance(value, str) else otherwise


def spoken(name: Any) -> str:
    """A name as people say it."""
    return str(name).replace("_", " ").replace("gauss newton", "Gauss-Newton")


def headed(name: Any) -> str:
    """A name as a heading; capitals within it and ids such as mdpnewton/Navigation-v0 stay."""
    said = spoken(name)
    return said if "/" in said.split(" ")[0] else said[:1].upper() + said[1:]


def told(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        large = 1e4 <= abs(value) < 1e15
        return f"{value:,.0f}" if large else f"{value:.6g}"
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        shown = ", ".join(told(one) for one in value[:8])
        return shown if len(value) <= 8 else f"{shown}, … ({len(value):,} entries)"
    if isinstance(value, Mapping):
        mean, error = real(value.get("mean")), real(value.get("stderr"))
        if mean is not None and error is not None:
            runs = value.get("runs")
            return f"{mean:.5g} ± {error:.2g}" + (f" ({told(runs)} runs)" if runs else "")
        return ", ".join(f"{spoken(key)} {told(each)}" for key, each in list(value.items())[:12])
    return "?"


def interval(low: Any, high: Any) -> str:
    """The ends of an interval; empty if there is none."""
    return "" if real(low) is None or real(high) is None else f"{low:.4g} to {high:.4g}"


def _small(values: Sequence[float]) -> float:
    """Where an axis that is logarithmic on both sides of zero is linear."""
    sizes = sorted(abs(value) for value in values if value)
    return max(sizes[len(sizes) // 10], 1e-4 * sizes[-1]) if sizes else 1.0
