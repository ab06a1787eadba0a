"""The site: the reference has every public name, and in a browser it asks nobody for anything."""

import re
from pathlib import Path

import mdpnewton as mn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def test_the_reference_has_the_public_names_in_their_groups():
    groups = [
        re.findall(r'"(\w+)"', group)
        for group in re.split(
            r"^ +# .*$", (DOCS.parent / "mdpnewton" / "__init__.pyi").read_text(), flags=re.M
        )[1:]
    ]
    pages = [
        re.findall(r"^::: mdpnewton\.(\w+)$", page.read_text(), re.M)
        for page in (DOCS / "reference").glob("*.md")
    ]
    public = [[name for name in group if name != "__version__"] for group in groups]
    assert sorted(pages) == sorted(public)
    assert {name for page in pages for name in page} | {"__version__"} == set(mn.__all__)
