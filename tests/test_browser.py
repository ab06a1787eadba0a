"""Reports in a real browser, without a network: what is drawn, what moves, and what is harmless."""

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import browser
import numpy as np
import pytest
import run_folders
from run_folders import KINDS, folder_of

from mdpnewton.cli.pages import write_report
from mdpnewton.cli.watch import page_server
from mdpnewton.files.lock import locked
from mdpnewton.files.sessions import begin_session, end_session

RESULTS = sorted(
    path.parent for path in (Path(__file__).parents[1] / "docs" / "results").rglob("config.json")
)
# Pixels of a canvas that are neither empty nor the colour of the first one.
DRAWN = """(canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colors = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3]) colors.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  }
  return colors.size;
}"""


@pytest.fixture
def shown(chromium, tmp_path):
    """Opens the report of run folders from a file; in the end nobody must have complained."""
    opened = []

    def show(*folders, size=browser.DESKTOP, dark=False):
        path = tmp_path / f"report {len(opened)} #1.html"
        write_report(folders, path)
        opened.append(chromium.page(path.as_uri(), size, dark))
        opened[-1].wait("document.querySelector('h1') !== null")
        return opened[-1]

    yield show
    for page in opened:
        assert page.complaints() == []
        assert page.requests() == []
        page.__exit__()


def colors(page, selector="canvas"):
    """For every canvas how many colours it has."""
    return page.run(f"[...document.querySelectorAll({selector!r})].map({DRAWN})")


@pytest.mark.parametrize("size", [browser.DESKTOP, browser.PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_report_opens_from_a_file_and_fits(shown, tmp_path, kind, size):
    page = shown(folder_of(kind, tmp_path), size=size, dark=size == browser.PHONE)
    if kind not in ("hostile", "broken", "empty"):
        page.wait(f"[...document.querySelectorAll('canvas')].every((one) => ({DRAWN})(one) > 1)")
        drawings = "document.querySelectorAll('canvas, .graph svg').length"
        assert page.run(drawings) > 0
    assert page.run("document.documentElement.scrollWidth <= innerWidth")
    assert page.run("document.title") != "taken"
    assert page.run("document.querySelectorAll('main img, main script, main iframe').length") == 0
    text = page.run("document.body.innerText")
    assert "How it was made" in text or "Warnings" in text


@pytest.mark.parametrize("folder", RESULTS, ids=lambda path: path.name)
def test_the_report_of_every_experiment_is_drawn(shown, folder):
    page = shown(folder)
    page.wait(f"[...document.querySelectorAll('canvas')].every((one) => ({DRAWN})(one) > 1)")
    assert page.run("document.querySelectorAll('canvas, .paths svg').length") > 0
    page.resize(browser.PHONE)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_comparison_and_all_single_runs(shown, tmp_path):
    folders = [run_folders.training(tmp_path / str(n), n, n) for n in range(3)]
    page = shown(*folders)
    before = page.run("document.querySelector('.plot').plot.series.filter((s) => s.show).length")
    page.run("document.querySelector('button.runs').click()")
    after = page.run("document.querySelector('.plot').plot.series.filter((s) => s.show).length")
    assert after == before + 3
    assert page.run("document.querySelector('button.runs').getAttribute('aria-pressed')") == "true"


def test_hovering_reads_values_on_all_charts_of_an_iteration(shown, tmp_path):
    page = shown(folder_of("training", tmp_path))
    page.run("document.querySelectorAll('.plot')[1].scrollIntoView({block: 'center'})")
    box = page.run(
        "(() => { const r = document.querySelectorAll('.plot')[1].querySelector('.u-over')"
        ".getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"
    )
    x, y, width, height = box
    page.mouse("mouseMoved", x + width / 2, y + height / 2)
    page.wait("document.querySelectorAll('.readout')[1].textContent.startsWith('iteration')")
    others = page.run("[...document.querySelectorAll('.readout')].map((one) => one.textContent)")
    same = [text.split(":")[0] for text in others if text.startswith("iteration")]
    assert len(same) > 5
    assert len(set(same)) == 1


def test_dragging_zooms_all_charts_of_an_iteration_and_escape_undoes_it(shown, tmp_path):
    page = shown(folder_of("training", tmp_path))
    ranges = (
        "[...document.querySelectorAll('section')[1].querySelectorAll('.plot')]"
        ".map((one) => [one.plot.scales.x.min, one.plot.scales.x.max])"
    )
    whole = page.run(ranges)
    page.run("document.querySelectorAll('.plot')[1].scrollIntoView({block: 'center'})")
    x, y, width, height = page.run(
        "(() => { const r = document.querySelectorAll('.plot')[1].querySelector('.u-over')"
        ".getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; })()"
    )
    page.mouse("mouseMoved", x + width * 0.3, y + height / 2)
    page.mouse("mousePressed", x + width * 0.3, y + height / 2, buttons=1)
    for share in (0.4, 0.5, 0.6):
        page.mouse("mouseMoved", x + width * share, y + height / 2, buttons=1)
    page.mouse("mouseReleased", x + width * 0.6, y + height / 2)
    page.wait(f"JSON.stringify({ranges}) !== {str(whole).replace(' ', '')!r}")
    zoomed = np.array(page.run(ranges))
    assert (zoomed[:, 0] > whole[0][0]).all()
    assert (zoomed[:, 1] < whole[0][1]).all()
    page.run("document.querySelectorAll('.plot')[1].focus()")
    page.press("Escape")
    page.wait(f"JSON.stringify({ranges}) === {str(whole).replace(' ', '')!r}")


def test_the_keyboard_reads_a_chart_and_tables_stand_beside_it(shown, tmp_path):
    page = shown(folder_of("experiment", tmp_path))
    page.run("document.querySelector('.plot').focus()")
    for _ in range(3):
        page.press("ArrowRight")
    page.wait("document.querySelector('.readout').textContent.startsWith('iteration 2:')")
    page.run("document.querySelector('details summary').click()")
    page.wait("document.querySelectorAll('details table tbody tr').length === 20")
    unnamed = page.run(
        "[...document.querySelectorAll('button, input, select, [tabindex], svg, canvas')]"
        ".filter((one) => !one.textContent.trim() && !one.getAttribute('aria-label')"
        " && !one.closest('[aria-label]')).map((one) => one.outerHTML.slice(0, 99))"
    )
    assert unnamed == []


def test_a_replay_plays_pauses_and_steps(shown, tmp_path):
    page = shown(folder_of("experiment", tmp_path))
    frame = "Number(document.querySelector('.player input').value)"
    page.run("document.querySelector('[aria-label=\"One frame on\"]').click()")
    assert page.run(frame) == 1
    first = page.run("document.querySelector('.film canvas').toDataURL()")
    page.run("document.querySelector('[aria-label=\"Speed\"]').value = '4'")
    page.run("document.querySelector('[aria-label=\"Speed\"]').dispatchEvent(new Event('change'))")
    page.run("document.querySelector('.play').click()")
    page.wait(f"{frame} === 5")
    page.wait("document.querySelector('.play').textContent === 'Play'")
    assert page.run("document.querySelector('.film canvas').toDataURL()") != first


def test_an_episode_moves_the_pole_and_the_cursor(shown, tmp_path):
    page = shown(folder_of("training", tmp_path))
    before = page.run("document.querySelector('.film canvas').toDataURL()")
    page.run("document.querySelector('.play').click()")
    page.wait("Number(document.querySelector('.player input').value) > 3")
    page.run("document.querySelector('.play').click()")
    assert page.run("document.querySelector('.film canvas').toDataURL()") != before
    page.wait(
        "[...document.querySelectorAll('.film .readout')].some((one) => one.textContent.startsWith"
        "('step '))"
    )


def test_a_matrix_and_a_graph_are_read_by_keyboard(shown, tmp_path):
    page = shown(folder_of("analysis", tmp_path))
    page.run("document.querySelector('.heat canvas').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.press(key)
    page.wait(
        "document.querySelector('.heat .readout').textContent.startsWith('row w1, column w1')"
    )
    page = shown(folder_of("controller", tmp_path))
    page.run("document.querySelector('.graph circle').focus()")
    page.wait("document.querySelector('.graph .readout').textContent.includes('reached by')")
    inside = page.run(
        "(() => { const art = document.querySelector('.graph svg').getBoundingClientRect();"
        " return [...document.querySelectorAll('.graph svg text')].every((one) => {"
        " const r = one.getBoundingClientRect();"
        " return r.left >= art.left - 1 && r.right <= art.right + 1; }); })()"
    )
    assert inside


def test_dark_and_light_follow_the_system_and_the_switch(shown, tmp_path):
    page = shown(folder_of("experiment", tmp_path), dark=True)
    paper = "getComputedStyle(document.body).backgroundColor"
    dark = page.run(paper)
    page.run("document.querySelector('[data-theme-name=light]').click()")
    light = page.run(paper)
    assert dark != light
    page.run("document.querySelector('[data-theme-name=auto]').click()")
    assert page.run(paper) == dark


def test_the_data_can_be_saved(shown, tmp_path):
    page = shown(folder_of("training", tmp_path))
    page.run(
        "window.saved = null; URL.createObjectURL = (blob) => { blob.text().then((text) =>"
        " { window.saved = JSON.parse(text); }); return 'data:,'; }"
    )
    page.run(
        "HTMLAnchorElement.prototype.click = function () { window.name = this.download; };"
        "[...document.querySelectorAll('button')].find((one) => one.textContent === 'Data as JSON')"
        ".click()"
    )
    page.wait("window.saved !== null")
    assert page.run("window.name") == "report.json"
    assert page.run("window.saved.metrics.length") == 12
    assert page.run("window.saved.config.environment") == "CartPole-v1"


# The live page


@pytest.fixture
def watched(tmp_path):
    """A training that is under way, and the address of its page."""
    folder = run_folders.training(tmp_path / "run", finished=False)
    server = page_server([folder], 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()
    thread.join()


def answer(address, **headers):
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as found:
            return found.status, dict(found.headers), found.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_the_live_page_is_for_this_machine_alone(watched):
    folder, address = watched
    status, headers, content = answer(address)
    assert status == 200
    assert b"connect-src 'self'" in content
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    port = address.rstrip("/").rpartition(":")[2]
    assert answer(address, Host=f"localhost:{port}")[0] == 200
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1", ""):
        assert answer(address, Host=host)[0] == 403, host
    for path in ("config.json", "../config.json", "policy.npz", "run/results.json"):
        assert answer(address + path)[0] == 404
    status, headers, _ = answer(address + "data.json")
    assert status == 200
    assert answer(f"{address}data.json?have={headers['X-Stamp']}")[0] == 204
    (folder / "results.json").write_text("{}")
    assert answer(f"{address}data.json?have={headers['X-Stamp']}")[0] == 200


def test_the_live_page_follows_a_run_that_writes_is_killed_resumed_and_ends(chromium, watched):
    folder, address = watched
    text = "document.body.innerText"
    with chromium.page(address) as page:
        with locked(folder):
            begin_session(folder, "mdpnewton train CartPole-v1")
            page.wait(f"{text}.includes('running for')")
            with (folder / "metrics.jsonl").open("a") as lines:
                lines.write('{"iteration": 12, "transitions": 5200, "return": 777, "kl": 0.1}\n')
            page.wait(f"{text}.includes('777')")
        page.wait(f"{text}.includes('killed')")
        with locked(folder):
            begin_session(folder, "mdpnewton train CartPole-v1")
            page.wait(f"{text}.includes('it has been resumed')")
            run_folders.training(folder)
            begin_session(folder, "mdpnewton train CartPole-v1")
            end_session(folder, "finished", 5.0)
        page.wait(f"{text}.includes('finished after')")
        page.wait(f"{text}.includes('much more than nothing')")
        assert page.complaints() == []
        assert all(one.startswith(address) for one in page.requests())


LIVE = {
    "train": ["train", "cartpole", "--policy=linear", "--iterations=100000"],
    "tetris train": ["tetris", "train", "--height=6", "--width=6", "--iterations=100000"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVE)
def test_the_live_page_follows_a_real_training_through_a_kill(chromium, tmp_path, name):
    folder, text = tmp_path / "run", "document.body.innerText"
    command = [sys.executable, "-m", "mdpnewton", *LIVE[name], "--out", str(folder)]
    points = "document.querySelector('.plot')?.plot.data[0].length ?? 0"

    def begun():
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen(command, **quiet)

    training = begun()
    while not (folder / "sessions.json").exists():
        time.sleep(0.1)
    server = page_server([folder], 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    with chromium.page(address) as page:
        page.wait(f"{text}.includes('running for')")
        page.wait(f"{points} >= 2")
        page.wait(f"{points} >= {page.run(points) + 2}")
        training.kill()
        training.wait()
        page.wait(f"{text}.includes('killed')")
        before = page.run(points)
        training = begun()
        page.wait(f"{text}.includes('it has been resumed')")
        page.wait(f"{points} > {before + 2}")
        training.send_signal(signal.SIGINT)
        training.wait()
        page.wait(f"{text}.includes('interrupted after')")
        assert page.complaints() == []
    server.shutdown()
    server.server_close()
    thread.join()


def test_watch_serves_until_it_is_interrupted(tmp_path):
    folder = run_folders.training(tmp_path / "run")
    command = [sys.executable, "-m", "mdpnewton", "watch", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as one:
        address = one.stdout.readline().split()[0]
        assert answer(address)[0] == 200
        time.sleep(0.1)
        one.send_signal(signal.SIGINT)
        out, err = one.communicate(timeout=30)
    assert (one.returncode, err) == (0, "")
    assert out == "ended; the run itself is not touched\n"
    assert not list(Path(folder).glob("report.html"))
