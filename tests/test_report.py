"""Reports from run folders: what is on the page, that it is one safe file, and commands."""

import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import run_folders
from run_folders import ATTACK, KINDS, folder_of

from mdpnewton.cli import main
from mdpnewton.experiments import EXPERIMENTS
from mdpnewton.files import found
from mdpnewton.files.found import found_in, plain
from mdpnewton.files.sessions import begin_session, end_session
from mdpnewton.report.page import document, page_of
from mdpnewton.report.page import document as written
from mdpnewton.report.page.document import embedded
from mdpnewton.report.page.facts import state
from mdpnewton.report.page.parts import chart, curve, numbers, told

ROOT = Path(__file__).parents[1]
LARGEST = 2_000_000  # bytes of a report
RESULTS = sorted(path.parent for path in (ROOT / "docs" / "results").rglob("config.json"))


def parts_of(page):
    return [part for section in page["sections"] for part in section["parts"]]


class Scripts(HTMLParser):
    """The elements of a document, and what its scripts hold."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        self.inside = None


# What is on the page


def test_a_training_says_what_was_asked_and_what_came_of_it(tmp_path):
    page = page_of([folder_of("training", tmp_path)], {})
    assert page["title"] == "A policy (rbf) for CartPole-v1 by second Gauss-Newton, seed 0"
    assert page["verdict"] == {
        "status": "good",
        "sentence": "The policy returns 25, much more than nothing.",
    }
    assert page["state"] == "finished after 12.5 s"
    titles = [one["title"] for one in page["sections"]]
    assert titles == ["Learning curve", "Every iteration", "Replay", "Warnings", "How it was made"]
    charts = {one["title"]: one for one in page["sections"][1]["parts"] if one["kind"] == "chart"}
    assert {one["sync"] for one in charts.values()} == {"iteration"}
    for word in ("Return", "Divergence", "Size", "Residual", "Smallest", "Damping", "solver"):
        assert any(word in title for title in charts), word
    size = charts["Size of the step"]
    back = [value is not None for value in size["curves"][1]["y"]]
    assert back == [n % 4 == 3 for n in range(12)]
    assert charts["Residual of the linear system"]["scale"] == "log"
    assert charts["Smallest curvature that was seen"]["scale"].startswith("asinh")
    said = next(one for one in page["sections"] if one["title"] == "Warnings")["parts"][0]
    assert any("indefinite" in one for one in said["sentences"])
    assert "3 of 12 steps were taken back." in said["sentences"]
    facts = json.dumps(page["sections"][-1])
    for word in ("mdpnewton train X", "abcdef", "12.5 s", "clipped"):
        assert word in facts


def test_an_experiment_has_a_band_and_its_single_runs_and_says_if_it_is_too_short(tmp_path):
    folder = folder_of("experiment", tmp_path)
    page = page_of([folder], {"demo": ("what it shows", ("update", "reward"))})
    assert page["title"] == "demo: what it shows (quick scale, seed 0)"
    assert "too short to judge" in page["verdict"]["sentence"]
    assert page["verdict"]["sentence"].startswith("natural")
    (curves,) = (one for one in parts_of(page) if one["kind"] == "chart")
    assert (curves["x"], curves["y"]) == ("update", "reward")
    results = json.loads((folder / "results.json").read_text())
    for one, (name, found_) in zip(curves["curves"], results["methods"].items(), strict=True):
        assert one["name"] == name.replace("_", " ").replace("gauss newton", "Gauss-Newton")
        np.testing.assert_allclose(one["y"], found_["curve"]["mean"], rtol=1e-4)
        np.testing.assert_allclose(one["runs"], found_["curve"]["runs"], rtol=1e-4)
        low = np.array(found_["curve"]["mean"]) - 1.96 * np.array(found_["curve"]["stderr"])
        np.testing.assert_allclose(one["low"], low, rtol=1e-4)
    (film,) = (one for one in parts_of(page) if one["kind"] == "film")
    assert (film["frames"], film["width"], film["milliseconds"]) == (6, 40, 50)


def test_short_curves_have_a_chart_of_their_own_and_ties_are_called_ties(tmp_path):
    folder = folder_of("experiment", tmp_path)
    results = json.loads((folder / "results.json").read_text())
    natural = results["methods"]["natural"]
    results["methods"]["long"] = {"curve": {**natural["curve"], "x": list(range(0, 200, 10))}}
    (folder / "results.json").write_text(json.dumps(results))
    page = page_of([folder], {})
    charts = [one for one in parts_of(page) if one["kind"] == "chart"]
    assert [[each["name"] for each in one["curves"]] for one in charts] == [
        ["long"],
        ["second Gauss-Newton", "natural"],
    ]
    assert charts[1]["title"] == f"{charts[0]['title']}, the shorter ones"
    assert "What ends highest: natural and long (" in page["verdict"]["sentence"]


def test_an_analysis_has_the_whole_spectrum_and_named_matrices(tmp_path):
    folder = folder_of("analysis", tmp_path)
    page = page_of([folder], {})
    assert page["verdict"]["sentence"].startswith("The Hessian is indefinite")
    matrices = {one["title"]: one for one in parts_of(page) if one["kind"] == "heat"}
    assert matrices["H1"]["names"] == [f"w{n}" for n in range(6)]
    results = json.loads((folder / "results.json").read_text())
    (spectrum,) = (one for one in parts_of(page) if one["kind"] == "chart")
    whole = next(one for one in spectrum["curves"] if one["name"] == "H1")
    expected = np.linalg.eigvalsh(np.array(results["H1"]))[::-1]
    np.testing.assert_allclose(whole["y"], expected, rtol=1e-4)
    both = np.array(results["H12"]) + np.array(results["H12"]).T
    np.testing.assert_allclose(matrices["H12 + H12'"]["values"], both, rtol=1e-4)


def test_a_controller_is_a_graph_with_probabilities(tmp_path):
    page = page_of([folder_of("controller", tmp_path)], {})
    assert page["verdict"]["sentence"] == (
        "The best controller found has the value 19.3. 1 of 2 starts reached it."
    )
    (graph,) = (one for one in parts_of(page) if one["kind"] == "graph")
    assert {one["id"] for one in graph["nodes"]} == {0, 1, 2}
    ends = {(one["from"], one["to"]): one["lines"] for one in graph["edges"]}
    assert ends[0, 0] == [{"seen": "left", "done": "listen", "move": 0.8}]
    assert ends[0, 1] == [{"seen": "left", "done": "open", "move": 0.2}]
    assert sum(one["share"] for one in graph["edges"]) == pytest.approx(11 / 12)
    assert ends[1, 1][0]["done"] == "listen 50 % or open 50 %"
    assert [one["node"] for one in graph["starts"]] == [2]


def test_a_solved_mdp_shows_its_way_to_the_optimum(tmp_path):
    page = page_of([folder_of("plan", tmp_path)], {})
    assert page["title"] == "A policy for lake (total reward) by natural"
    assert page["verdict"] == {
        "status": "bad",
        "sentence": "The policy has the value 0.8, 0.1 below the optimum, 0.9; more iterations may "
        "help.",
    }
    first, *others = parts_of(page)
    assert first["curves"][0]["y"][-1] == 1.0
    assert first["levels"] == [{"name": "optimum", "y": 0.9}]
    assert "Smallest curvature that was seen" in [one["title"] for one in others]
    assert ["s0", "left", "0.9"] in [row for one in others for row in one.get("rows", [])]
    assert "it ended low" in str(page["sections"])


def test_tetris_shows_lines_and_a_game(tmp_path):
    page = page_of([folder_of("tetris", tmp_path)], {})
    assert "31.0 ± 2.0 lines per game" in page["verdict"]["sentence"]
    assert [one["kind"] for one in parts_of(page)].count("game") == 1


def test_tetris_shows_its_iterations_while_it_trains(tmp_path):
    folder = folder_of("tetris", tmp_path)
    (folder / "results.json").unlink()
    assert "there is no iteration yet" in page_of([folder], {})["verdict"]["sentence"]
    rows = [
        {
            "iteration": n,
            "seconds": n / 2,
            "height": 4 + n // 3,
            "lines": 2.0 + n,
            "accepted": n < 4,
        }
        for n in range(5)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = page_of([folder], {})
    assert page["verdict"]["sentence"] == (
        "Not finished: 5 iterations so far, the last games had 6.0 lines each on 5 rows."
    )
    first = parts_of(page)[0]
    assert [one["name"] for one in first["curves"]] == ["4 rows", "5 rows"]
    assert first["curves"][1]["y"] == [5.0, 6.0]
    assert "1 of 5 steps were taken back." in str(page["sections"])


def test_a_training_that_runs_was_killed_or_resumed_says_so(tmp_path):
    folder = run_folders.training(tmp_path / "run", finished=False)
    assert page_of([folder], {})["state"] == ""
    begin_session(folder, "mdpnewton train")
    assert state(found_in(folder)) == "killed"
    assert "killed" in page_of([folder], {})["state"]
    from mdpnewton.files.lock import locked

    with locked(folder):
        page = page_of([folder], {})
        assert page["running"]
        assert page["state"].startswith("running")
        begin_session(folder, "mdpnewton train")
        assert "resumed" in page_of([folder], {})["state"]
    end_session(folder, "interrupted", 3.0)
    assert state(found_in(folder)) == "interrupted"
    commands = parts_of(page_of([folder], {}))
    (table,) = (one for one in commands if one["kind"] == "table" and one["title"] == "Commands")
    assert [row[3] for row in table["rows"]] == ["killed", "interrupted"]
    assert page_of([folder], {})["verdict"]["sentence"].startswith("Not finished: 12 iterations")


@pytest.mark.parametrize("folder", RESULTS, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_results_of_every_experiment_have_a_report(folder):
    shown = {name: (row.shows, row.axes) for name, row in EXPERIMENTS.items()}
    page = page_of([folder], shown)
    kinds = {one["kind"] for one in parts_of(page)}
    assert kinds & {"chart", "paths"}
    assert "cannot be shown" not in json.dumps(page["sections"])
    assert len(page["verdict"]["sentence"]) > 20
    films = sum(len(one["source"]) for one in parts_of(page) if one["kind"] == "film")
    assert bool(films) == bool([*folder.glob("*.gif")])
    assert len(document(page)) - films < LARGEST


def test_results_without_a_run_say_what_ends_highest_and_keep_the_names_of_environments():
    page = page_of([ROOT / "docs" / "results" / "peers"], {})
    assert page["title"] == "The results peers"
    assert "Pendulum-v1: " in page["verdict"]["sentence"]
    titles = [part["title"] for part in page["sections"][0]["parts"]]
    assert "mdpnewton/Navigation-v0" in titles
    assert "how the results were made is not known" in json.dumps(page)


def test_an_experiment_on_a_model_of_ones_own_is_called_by_it(tmp_path):
    config = {"experiment": "hallway", "scale": "quick", "settings": {"model": "far/mine.npz"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    page = page_of([tmp_path], {"hallway": ("Figure 2a", ())})
    assert page["title"].startswith("hallway on mine.npz (quick scale")


def test_several_runs_are_compared(tmp_path):
    methods = ("second_gauss_newton", "natural")
    folders = [
        run_folders.training(tmp_path / f"{method}-{seed}", seed, 5.0 * rank + seed, method=method)
        for rank, method in enumerate(methods)
        for seed in range(4)
    ]
    page = page_of(folders, {})
    assert page["title"] == "8 runs compared: CartPole-v1"
    assert page["verdict"]["status"] == "good"
    assert page["verdict"]["sentence"].startswith("natural is better than second Gauss-Newton")
    charts = {one["title"]: one for one in parts_of(page) if one["kind"] == "chart"}
    assert [len(one["runs"]) for one in charts["CartPole-v1"]["curves"]] == [4, 4]
    assert len(charts["Performance profile"]["curves"]) == 2
    tables = {one["title"]: one for one in parts_of(page) if one["kind"] == "table"}
    (pair,) = tables["Differences, paired by seed"]["rows"]
    assert pair[1:4] == ["second Gauss-Newton minus natural", "4", "-5"]
    assert tables["How soon a level is reached"]["rows"]
    assert len(tables["Folders"]["rows"]) == 8


# One safe file


@pytest.mark.parametrize("kind", KINDS)
def test_every_folder_gives_one_harmless_document(kind, tmp_path):
    text = document(page_of([folder_of(kind, tmp_path)], {}))
    assert len(text) < LARGEST
    found_ = Scripts(text)
    tags = [tag for tag, _ in found_.tags]
    assert tags.count("script") == 3
    assert tags.count("img") == tags.count("iframe") == tags.count("object") == 0
    assert len(found_.scripts) == 3
    json.loads(found_.scripts[0])
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=\"(?!data:)", text)
    assert not [name for _, given in found_.tags for name in given if name.startswith("on")]


def test_the_policy_allows_the_two_scripts_by_their_digests_and_no_request(tmp_path):
    import base64
    import hashlib

    text = document(page_of([folder_of("training", tmp_path)], {}))
    found_ = Scripts(text)
    (policy,) = (
        given["content"] for tag, given in found_.tags if given.get("http-equiv") and tag == "meta"
    )
    rules = dict(one.split(" ", 1) for one in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == rules["base-uri"] == "'none'"
    digests = [
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()
        for one in found_.scripts[1:]
    ]
    assert rules["script-src"] == " ".join(f"'sha256-{one}'" for one in digests)
    assert "unsafe" not in policy
    assert "connect-src 'self'" in document(page_of([tmp_path], {}), live=True)


def test_attacks_are_text_and_long_texts_are_cut(tmp_path):
    text = document(page_of([folder_of("hostile", tmp_path)], {}))
    assert ATTACK not in text
    assert "<img" not in text
    assert "x" * 3000 not in text
    data = json.loads(Scripts(text).scripts[0])
    assert ATTACK in json.dumps(data, ensure_ascii=False)
    assert "10,000,000 characters" in json.dumps(data)


def test_what_is_damaged_is_said(tmp_path):
    page = page_of([folder_of("broken", tmp_path)], {})
    said = " ".join(page["sections"][-1]["parts"][0]["sentences"])
    for name in ("config.json", "results.json", "replay.json", "metrics.jsonl", "replay.gif"):
        assert name in said
    (tmp_path / "empty").mkdir()
    page = page_of([tmp_path / "empty"], {})
    assert "may not be a run folder" in json.dumps(page)
    with pytest.raises(ValueError, match="no such folder"):
        page_of([tmp_path / "nothing"], {})


def test_files_that_are_too_large_are_left_out(tmp_path, monkeypatch):
    folder = folder_of("training", tmp_path)
    monkeypatch.setattr(found, "LARGEST", 1000)
    page = page_of([folder], {})
    assert "is larger than" in json.dumps(page)


def test_data_that_are_too_large_are_left_out_step_by_step(tmp_path, monkeypatch):
    page = page_of([folder_of("experiment", tmp_path)], {})
    whole = len(embedded(page))
    for most, gone in ((whole // 2, "results.json in the run folder"), (3000, "too much data")):
        monkeypatch.setattr(sys.modules[embedded.__module__], "MOST", most)
        assert gone in embedded(page)
    assert len(embedded(page)) < 10_000 + sum(
        len(one["source"]) for one in parts_of(page) if one["kind"] == "film"
    )


def test_plain_data_are_finite_short_and_not_deep():
    deep = []
    for _ in range(100):
        deep = [deep]
    made = plain({"a": float("nan"), "b": -float("inf"), "c": 10**400, "d": 2**60, 3: deep})
    assert (made["a"], made["b"], made["c"], made["d"]) == (None, None, None, 2.0**60)
    json.dumps(made, allow_nan=False)
    assert json.dumps(made["3"]).count("[") < 20


def test_numbers_of_anything():
    assert numbers([1, 2.5, None, "x", True, float("nan"), 1e200]) == [
        *(1.0, 2.5, None, None, None, None, None)
    ]
    assert numbers("abc") == numbers([[1]]) == numbers({}) == numbers(None) == []
    assert told([1, None]) == "1, -"
    long = curve("a", [*range(10_000)], [*range(10_000)])
    assert len(long["x"]) <= 1501
    assert long["x"][-1] == 9999
    assert chart("", "", "", [curve("a", [1, 2], [0.0, 1.0])], log=True)["scale"] != "log"


# Commands


def run(capsys, *words):
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_report_writes_to_the_run_folder_or_where_it_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, other = (run_folders.training(tmp_path / name, n) for n, name in enumerate("ab"))
    assert run(capsys, "report", "a")[:2] == (0, "report: a/report.html\n")
    assert (one / "report.html").read_text().startswith("<!doctype html>")
    assert run(capsys, "report", "a", other)[1] == "report: report.html\n"
    assert run(capsys, "report", "a", "--out", "b.html")[1] == "report: b.html\n"
    assert Path("b.html").read_text() == (one / "report.html").read_text()
    status, out, err = run(capsys, "report", "a", "--out", "b")
    assert (status, out) == (2, "")
    assert "is a folder" in err
    assert "no such folder" in run(capsys, "report", "nothing")[2]
    Path("thesis.html").write_text("<p>mine</p>")
    status, out, err = run(capsys, "report", "a", "--out", "thesis.html")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "thesis.html: is no report that could be replaced" in err
    assert Path("thesis.html").read_text() == "<p>mine</p>"
    assert run(capsys, "report", "a", "--out", "b.html")[0] == 0  # a report is replaced


def test_compare_prints_json_and_a_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    folders = [
        run_folders.training(tmp_path / f"{m}{s}", s, s + (m == "natural"), method=m)
        for m in ("natural", "steepest")
        for s in (0, 1)
    ]
    status, out, err = run(capsys, "compare", *folders, "--json")
    assert (status, err) == (0, "")
    found_ = json.loads(out)
    assert set(found_["groups"]) == {"natural", "steepest"}
    assert found_["differences"][0]["mean"] == 1.0
    assert found_["improvement"][0]["probability"] == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    assert len(found_["profile"]["groups"]["natural"]["share"]) == len(found_["profile"]["levels"])
    status, out, err = run(capsys, "compare", *folders)
    assert status == 0
    assert "natural minus steepest" in out
    assert run(capsys, "compare", tmp_path / "nothing")[0] == 2
    (tmp_path / "empty").mkdir()
    assert "no results that could be compared" in run(capsys, "compare", tmp_path / "empty")[2]


def test_experiments_are_compared_by_method_and_setting(tmp_path, capsys):
    folders = [run_folders.experiment(tmp_path / str(n), seed=n) for n in (0, 10)]
    _, out, _ = run(capsys, "compare", *folders, "--json")
    groups = json.loads(out)["groups"]
    assert {name: one["runs"] for name, one in groups.items()} == {
        "second Gauss-Newton": 6,
        "natural": 6,
    }


def test_a_report_is_made_without_jax(tmp_path):
    folder = folder_of("training", tmp_path)
    code = (
        "import sys, mdpnewton.cli\n"
        f"assert mdpnewton.cli.main(['report', {str(folder)!r}]) == 0\n"
        f"assert mdpnewton.cli.main(['compare', {str(folder)!r}, '--json']) == 0\n"
        "assert not {'jax', 'matplotlib', 'equinox'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_licence_of_the_charts_comes_with_them():
    web = Path(written.__code__.co_filename).parent / "web"
    assert {path.name for path in web.iterdir()} == {
        *("report.js", "report.css", "uPlot.iife.min.js", "uPlot.min.css", "uPlot.LICENSE")
    }
    assert "MIT License" in (web / "uPlot.LICENSE").read_text()
    for path in web.glob("report.*"):
        text = path.read_text()
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "document.write"):
            assert word not in text


VALUES = (None, True, -1, 1e308, 2**70, "", ATTACK, [], [[]], {}, [None], {"a": {"x": [1, 2]}})


def mutated(value, draws, chance):
    """The data with some places replaced by something else."""
    if draws.random() < chance:
        return VALUES[draws.integers(len(VALUES))]
    if isinstance(value, dict):
        return {key: mutated(each, draws, chance) for key, each in value.items()}
    if isinstance(value, list):
        return [mutated(each, draws, chance) for each in value]
    return value


@pytest.mark.parametrize(
    "kind", ["training", "experiment", "analysis", "controller", "plan", "tetris"]
)
def test_files_of_any_form_give_a_report(kind, tmp_path):
    draws = np.random.default_rng(len(kind))
    whole = folder_of(kind, tmp_path)
    texts = {path: json.loads(path.read_text()) for path in whole.glob("*.json")}
    for chance in (0.01, 0.03, 0.1, 0.3) * 4:
        for path, content in texts.items():
            path.write_text(json.dumps(mutated(content, draws, chance)))
        text = document(page_of([whole], {"demo": ("what it shows", ("x", "y"))}))
        assert ATTACK not in text
        json.loads(Scripts(text).scripts[0])
        assert document(page_of([whole, whole], {}))


def test_figures_at_quick_scale_say_so_and_iterations_have_no_halves():
    from mdpnewton.report.figures import figure_style, new_figure, with_note

    with figure_style():
        figure, axis = new_figure()
        axis.plot([0, 1, 2], [0.0, 1.0, 4.0])
        axis.set_xlabel("iteration")
        with_note({"one": figure}, "too short")
        figure.draw_without_rendering()
    assert figure.get_supxlabel() == "too short"
    assert all(float(tick).is_integer() for tick in axis.get_xticks())


def test_a_legend_lies_below_all_axes_and_curves_that_coincide_are_told_apart():
    from mdpnewton.report.figures import figure_style, legend_below, new_figure, with_note

    with figure_style():
        figure, axes = new_figure(1, 2)
        for axis, second in zip(axes, ([0, 100], [50, 100]), strict=True):
            axis.plot([0, 1], [0, 100], label="one")
            axis.plot([0, 1], second, label="other")
            axis.plot([0, 1], [100, 0.0], label="third")
            axis.set_xlabel("iteration")
        legend_below(figure, axes)
        with_note({"one": figure}, "too short")
        figure.draw_without_rendering()
        other, axis = new_figure()
        axis.plot([0, 1], [0, 1000], label="one")
        axis.plot([0, 1], [0.5, 1000], label="near")  # less than the width of a line
        axis.plot([0, 1], [100, 1000], label="far")
        legend_below(other, [axis])
    assert [line.get_linestyle() for line in axis.get_lines()] == ["-", "--", "-"]
    (legend,) = figure.legends
    assert [one.get_text() for one in legend.get_texts()] == ["one", "other", "third"]
    styles = [[line.get_linestyle() == "--" for line in axis.get_lines()] for axis in axes]
    assert styles == [[False, True, False]] * 2  # the same everywhere, as the legend has it
    place = legend.get_window_extent()
    assert all(place.y1 <= axis.get_tightbbox().y0 + 1 for axis in axes)
    assert legend.get_title().get_text() == "too short"
    assert figure.get_supxlabel() == ""


def test_figures_are_drawn_again_from_results_alone(tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(ROOT / "docs" / "results" / "demo", folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in ("demo.png", "demo.svg"):
        (folder / name).write_bytes(b"old")
    assert main(["report", str(folder), "--figures", "--out", str(tmp_path / "x.html")]) == 0
    assert f"figure: {folder}/demo.png\n" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()}.keys() == before.keys()
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    (folder / "results.json").write_text('{"methods": {"natural": 3}}')
    for name in ("results.json", "config.json"):
        assert main(["report", str(folder), "--figures"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "holds no results of an experiment that this version can draw" in line
        (folder / name).unlink()


def test_the_picture_of_an_analysis_has_every_term_and_labels():
    from problems import gibbs, random_mdp

    import mdpnewton as mn
    from mdpnewton.report.analysis import analysis_table
    from mdpnewton.report.matrices import draw_terms

    mdp = random_mdp(1)
    policy, _, w = gibbs(1, mdp)
    analysis = mn.analyze(mdp, policy, w)
    axes = [axis for axis in draw_terms(analysis).axes if axis.get_title()]
    shown = [axis.get_title().splitlines()[0].replace("+H12'", "") for axis in axes]
    assert sorted(shown) == sorted(analysis.terms)
    assert {axis.get_ylabel() for axis in axes[::3]} == {"parameter"}
    assert {axis.get_xlabel() for axis in axes[-3:]} == {"parameter"}
    assert "--optimize" in str(analysis_table(analysis).renderables[-1])
