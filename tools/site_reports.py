"""Reports on the site: a hook of MkDocs that makes one for each folder of docs/results.

They stand beside `results.json` on the site alone; every link to such a file gets one to its
report.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mkdocs.structure.files import File, Files

from mdpnewton.cli.pages import write_report

NUMBERS = re.compile(r"\[[^\]]*\]\(((?:\.\./)*results/[\w/-]+)/results\.json\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the reports to the files of the site."""
    docs = Path(config.docs_dir)
    with TemporaryDirectory() as folder:
        for numbers in sorted((docs / "results").rglob("results.json")):
            written = Path(folder) / "report.html"
            write_report([numbers.parent], written)
            name = (numbers.parent / "report.html").relative_to(docs).as_posix()
            files.append(File.generated(config, name, content=written.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Put a link to the report beside every link to results."""
    return NUMBERS.sub(r"\g<0> ([report](\1/report.html))", markdown)
