"""The site: it builds, its links lead somewhere, and in a browser it asks nobody for anything."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import pytest
import ties

import mdpnewton as mn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
# Formulas, wide tables, long signatures and a script
HARDEST = ("criteria", "pomdp", "results", "explore", "reference/policies", "experiments/fsc")
# What a reader sees, without code and without formulas, which are drawn.
PROSE = """(() => {
  const copy = document.querySelector("article").cloneNode(true);
  copy.querySelectorAll("pre, code, .katex, script").forEach((one) => one.remove());
  return copy.textContent;
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built once."""
    folder = tmp_path_factory.mktemp("site")
    command = [Path(sys.executable).parent / "mkdocs", "build", "--strict", "--quiet"]
    done = subprocess.run(
        [*command, "--site-dir", folder], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def pages(site):
    """The pages of the site, without the reports."""
    every = [page for page in site.rglob("*.html") if "results" not in page.parts]
    return sorted(page for page in every if page.name != "404.html")


class Links(HTMLParser):
    """What a page has, what it leads to, and what it loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.names, self.targets, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        about = dict(attributes)
        self.names |= {about[name] for name in ("id", "name") if about.get(name)}
        loads = tag != "a" and about.get("rel") != "canonical"
        for found in (about.get("href"), about.get("src")):
            if found:
                (self.loaded if loads else self.targets).append(found)


def test_the_reference_has_the_public_names_in_their_groups():
    listed = (ROOT / "mdpnewton" / "__init__.pyi").read_text()
    groups = [re.findall(r'"(\w+)"', one) for one in re.split(r"^ +# .*$", listed, flags=re.M)[1:]]
    shown = [
        re.findall(r"^::: mdpnewton\.(\w+)$", page.read_text(), re.M)
        for page in (DOCS / "reference").glob("*.md")
    ]
    public = [[name for name in group if name != "__version__"] for group in groups]
    assert sorted(shown) == sorted(public)
    assert {name for page in shown for name in page} | {"__version__"} == set(mn.__all__)


def test_the_overview_has_only_numbers_of_the_experiments_pages():
    sections = (DOCS / "results.md").read_text().split("\n## ")[1:]
    assert len(sections) == 13
    for section in sections:
        page = (DOCS / re.search(r"\]\((experiments/.*?\.md)\)", section)[1]).read_text()
        for label in ("Here", "Its number"):
            line = ties.LINK.sub(r"\1", re.search(rf"\*\*{label}\*\*: (.*)", section)[1])
            for number in re.findall(r"(?<!\w)\d[\d.,]*(?:e-?\d+)?(?<![.,])", line):
                assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", page), (number, line)


def test_links_of_the_site_lead_somewhere_and_it_loads_nothing_from_elsewhere(site):
    read = {page: Links(page.read_text()) for page in pages(site)}
    for page, links in read.items():
        for target in links.loaded + links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                assert target in links.targets, (page.name, target)
                continue
            goal = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert goal.exists(), (page.name, target)
            if parts.fragment and goal in read:
                assert unquote(parts.fragment) in read[goal].names, (page.name, target)


def test_results_have_reports_that_open_in_place(site, chromium):
    reports = [page.parent.relative_to(site) for page in site.rglob("results/**/report.html")]
    numbers = [page.parent.relative_to(DOCS) for page in DOCS.rglob("results/**/results.json")]
    assert sorted(reports) == sorted(numbers)
    with chromium.page((site / "results.html").as_uri()) as page:
        linked = "[...document.querySelectorAll('article a[href$=\"/report.html\"]')]"
        assert page.run(f"{linked}.length") == 13
        page.run(f"{linked}[0].click()")
        page.wait("location.pathname.endsWith('results/invariance/report.html')")
        page.wait("document.querySelector('h1') !== null && document.readyState === 'complete'")
        assert page.complaints() == []


def opens_well(site, chromium, path, size):
    with chromium.page(path.as_uri(), size, dark=size == browser.PHONE) as page:
        assert "$" not in page.run(PROSE), path.name
        unset = "document.querySelectorAll('.arithmatex:not(:has(.katex)), .katex-error').length"
        assert page.run(unset) == 0, path.name
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), path.name
        assert page.complaints() == [], path.name
        elsewhere = [one for one in page.requests() if not one.startswith(site.as_uri())]
        assert elsewhere == [], path.name


@pytest.mark.parametrize("name", HARDEST)
def test_the_hardest_pages_open_from_a_file_on_a_phone(site, chromium, name):
    opens_well(site, chromium, site / f"{name}.html", browser.PHONE)


@pytest.mark.slow
@pytest.mark.parametrize("size", [browser.DESKTOP, browser.PHONE], ids=["desktop", "phone"])
def test_every_page_opens_from_a_file(site, chromium, size):
    for path in pages(site):
        opens_well(site, chromium, path, size)


def test_the_search_works_from_a_file(site, chromium):
    with chromium.page((site / "index.html").as_uri()) as page:
        page.run("document.querySelector('[data-md-component=search-query]').focus()")
        page.call("Input.insertText", text="second Gauss-Newton")
        page.wait("document.querySelectorAll('.md-search-result__link').length > 3")
        goal = page.run("document.querySelector('.md-search-result__link').href")
        assert goal.startswith(site.as_uri())
        assert page.complaints() == []


def test_dark_and_light_can_be_switched(site, chromium):
    with chromium.page((site / "index.html").as_uri(), dark=True) as page:
        paper = "getComputedStyle(document.body).backgroundColor"
        dark = page.run(paper)
        page.run("document.querySelector('label[for=__palette_1]').click()")
        page.wait(f"{paper} !== {dark!r}")


def enter(page, selector, value, event):
    """Give a control of the explorable a value, as its user does."""
    one = f"document.querySelector('#explore {selector}')"
    page.run(f"{one}.value = {json.dumps(value)}")
    page.run(f"{one}.dispatchEvent(new Event({event!r}))")


def column(page, number):
    """A column of the explorable's table."""
    rows = "[...document.querySelectorAll('.explore-table tbody tr')]"
    return page.run(f"{rows}.map((row) => row.cells[{number}].textContent)")


@pytest.fixture
def explorable(site, chromium):
    with chromium.page((site / "explore.html").as_uri()) as page:
        yield page
        assert page.complaints() == []


def test_the_explorable_shows_who_is_invariant(explorable):
    names = column(explorable, 0)
    assert column(explorable, 3) == column(explorable, 4) == ["\u2013"] * 6
    enter(explorable, "select[aria-label=parameters]", "mix", "change")
    enter(explorable, 'input[aria-label="added to every reward"]', "5", "input")
    stays = [
        [name for name, moved in zip(names, column(explorable, at), strict=True) if moved == "0"]
        for at in (3, 4)
    ]
    assert stays[0] == names[1:]
    assert stays[1] == ["steepest ascent", "natural gradient", "first Gauss-Newton", "Newton"]


def test_the_point_of_the_explorable_is_moved_by_keys_and_dragged(explorable):
    told = "document.querySelector('#explore .told').textContent"
    explorable.run("document.querySelector('#explore canvas').focus()")
    explorable.press("ArrowUp")
    assert explorable.run(told).startswith("w = (1.00, \u22120.900)")
    x, y, side = explorable.run(
        "(() => { const r = document.querySelector('#explore canvas').getBoundingClientRect();"
        " return [r.x, r.y, r.width]; })()"
    )
    explorable.mouse("mousePressed", x + side / 4, y + side / 4, buttons=1)
    explorable.mouse("mouseMoved", x + 3 * side / 4, y + side / 4, buttons=1)
    explorable.mouse("mouseReleased", x + 3 * side / 4, y + side / 4)
    at = explorable.run("document.querySelector('#explore').w")
    assert at == pytest.approx([2, 2], abs=0.05)


def test_the_explorable_takes_a_problem_and_says_what_is_wrong_with_it(explorable):
    problem = {"start": [1, 1], "reward": [[1, 0, 0], [2, 0, 0]], "discount": 0.5}
    problem["transition"] = [[[1, 0], [0, 1], [0.5, 0.5]]] * 2
    show = "document.querySelector('#explore button').click()"
    enter(explorable, "textarea", json.dumps(problem), "input")
    explorable.run(show)
    assert "sum to one" in explorable.run("document.querySelector('#explore .wrong').textContent")
    enter(explorable, "textarea", json.dumps(problem | {"start": [1, 0]}), "input")
    explorable.run(show)
    assert explorable.run("document.querySelector('#explore .wrong').textContent") == ""
    assert len(explorable.run("document.querySelector('#explore').w")) == 4
    shown = "document.querySelectorAll('#explore .coordinates select').length"
    assert explorable.run(shown) == 2
