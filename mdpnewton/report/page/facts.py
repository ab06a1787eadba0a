"""How a run was made: commands, seeds, versions, commit, duration, machine; and its state."""

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mdpnewton.files.found import Found
from mdpnewton.files.lock import holder
from mdpnewton.report.page.parts import Part, listed, mapping, real, section, spoken, table, text

APART = ("python", "libraries", "machine", "cores", "settings", "results_version")


def state(found: Found) -> str:
    """What has become of a run: "running", "finished", "interrupted", "failed" or "killed".

    Empty if nobody wrote it down.
    """
    if holder(found.folder):
        return "running"
    sessions = _sessions(found)
    if not sessions:
        return ""
    return text(sessions[-1].get("ended")) or "killed"


def seconds(found: Found) -> float | None:
    """How long all commands took together, as far as they wrote it down."""
    known = [real(one.get("seconds")) for one in _sessions(found)]
    every = [one for one in known if one is not None]
    return sum(every) if every else None


def how_it_was_made(found: Found) -> Part:
    """The section with everything that one needs to make the run again."""
    config, sessions = found.config, _sessions(found)
    about = [[spoken(name), each] for name, each in config.items() if name not in APART]
    settings = [[spoken(name), each] for name, each in mapping(config.get("settings")).items()]
    made = [["python", config.get("python")]]
    made += [[name, each] for name, each in mapping(config.get("libraries")).items()]
    made += [[name, each] for name, each in mapping(config.get("machine")).items()]
    made += [["cores", config.get("cores")], ["results version", config.get("results_version")]]
    total = seconds(found)
    commands = [
        [
            text(one.get("command"), "?"),
            text(one.get("began"), "?")[:16].replace("T", " "),
            "-" if real(one.get("seconds")) is None else duration(float(one["seconds"])),
            text(one.get("ended"), state(found) if one is sessions[-1] else "killed"),
            text(one.get("version"), "?"),
            text(one.get("commit"), "-"),
        ]
        for one in sessions
    ]
    note = "" if total is None else f"Together {duration(total)}"
    if note and any(one[3] == "killed" for one in commands):
        note += ", not counting what was killed"
    head = ["command", "began", "duration", "ended", "version", "commit"]
    return section(
        "How it was made",
        [
            table("Commands", head, commands, note and f"{note}."),
            table("Run", ["", "value"], about),
            table("Settings", ["", "value"], settings),
            table(
                "Versions and machine", ["", "value"], [row for row in made if row[1] is not None]
            ),
        ],
    )


def jobs_done(found: Found) -> str:
    """How many jobs of a run are done, in a sentence; empty if it has none."""
    done = [path for path in (found.folder / "jobs").glob("*.npz") if "." not in path.stem]
    return f" {len(done)} jobs are done." if done else ""


def duration(total: float) -> str:
    """A time as people say it."""
    if total < 100:
        return f"{total:.1f} s"
    return f"{total / 60:.0f} min" if total < 6000 else f"{total / 3600:.1f} h"


def status_line(found: Found) -> str:
    """What has become of the run, in a few words."""
    how, sessions = state(found), _sessions(found)
    total = seconds(found)
    spent = "" if total is None else f" after {duration(total)}"
    if how == "running":
        began = text(sessions[-1].get("began")) if sessions else ""
        if holder(found.folder) == "elsewhere":
            return "running on another machine, or killed there"
        resumed = "; it has been resumed" if len(sessions) > 1 else ""
        return f"running{_since(began)}{resumed}"
    if how == "killed":
        return "killed, or its computer went down; the same command goes on"
    if how in ("interrupted", "failed"):
        return f"{how}{spent}; the same command goes on"
    return f"finished{spent}" if how == "finished" else ""


def _since(began: str) -> str:
    try:
        spent = time.time() - datetime.strptime(began, "%Y-%m-%dT%H:%M:%S%z").timestamp()
    except ValueError:
        return ""
    return f" for {duration(max(spent, 0.0))}"


def _sessions(found: Found) -> list[Mapping[str, Any]]:
    kept = mapping(found.files.get("sessions.json")).get("sessions")
    return [mapping(one) for one in listed(kept)]
