"""A page as one HTML document: data, style and script inside, and nothing from elsewhere.

All data are JSON in an element that no browser executes, with every sign that could end it written
as an escape. The script shows them with `textContent` alone. A Content-Security-Policy with the
digests of the two scripts forbids any other, and any request.
"""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from mdpnewton.report.page.parts import Part, words

MOST = 1_700_000  # characters of data, films not counted
PLACE = '<main id="page"></main>'  # which no other document has
ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026"} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def document(page: Mapping[str, Any], *, live: bool = False) -> str:
    """The page as HTML.

    Args:
        page: What `page_of` gives.
        live: Whether the script asks its server for newer data.
    """
    scripts = [_web("uPlot.iife.min.js"), _web("report.js")]
    style = _web("uPlot.min.css") + _web("report.css")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_digest, scripts))}",
            f"style-src {_digest(style)}",
            "img-src data:",
            f"connect-src {chr(39)}self{chr(39)}" if live else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    title = html.escape(str(page["title"]))
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            f"<title>{title}</title>",
            f"<style>{style}</style>",
            "</head>",
            f'<body data-live="{"yes" if live else "no"}">',
            f"<noscript><h1>{title}</h1><p>{html.escape(page['verdict']['sentence'])}</p>"
            "<p>Charts and tables need JavaScript.</p></noscript>",
            PLACE,
            f'<script type="application/json" id="data">{embedded(page)}</script>',
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def is_report(path: Path) -> bool:
    """Whether the file is a document that was written here."""
    return path.is_file() and PLACE.encode() in path.read_bytes()


def embedded(page: Mapping[str, Any]) -> str:
    """The page as JSON that is safe within HTML, and small enough.

    What is too large is left out, first the data to download, then single runs, and said.
    """
    found = _as_json(page)
    if _size(page) > MOST:
        note = "The data are too large to be embedded; results.json in the run folder has them."
        page = {**page, "download": {"note": note}, "sections": [*page["sections"], _said(note)]}
        found = _as_json(page)
    if _size(page) > MOST:
        parts = [part for section in page["sections"] for part in section["parts"]]
        for part in parts:
            for curve in part.get("curves", ()):
                curve["runs"] = []
            if "rows" in part:
                part["rows"] = part["rows"][:200]
        note = "Single runs and the ends of long tables are left out, because they are too large."
        page = {**page, "sections": [*page["sections"], _said(note)]}
        found = _as_json(page)
    if _size(page) > MOST:
        note = "The run has too much data for one page; only its verdict is shown."
        return _as_json({**page, "sections": [_said(note)]})
    return found


def _as_json(page: Mapping[str, Any]) -> str:
    return json.dumps(page, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _size(page: Mapping[str, Any]) -> int:
    """Characters of the data without films."""
    kept = [
        {**one, "parts": [{**part, "source": ""} for part in one["parts"]]}
        for one in page["sections"]
    ]
    return len(_as_json({**page, "sections": kept}))


def _said(note: str) -> Part:
    return {"title": "Left out", "parts": [words(note)]}


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def _web(name: str) -> str:
    return (files("mdpnewton.report.page") / "web" / name).read_text(encoding="utf-8")
