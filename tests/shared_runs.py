"""Experiments at quick scale that several tests look at, each run once per session."""

import fcntl
import shutil
from pathlib import Path

from mdpnewton.cli import main


class SharedRuns:
    """Run folders that the processes of one session share."""

    def __init__(self, base: Path) -> None:
        self.base = base
        base.mkdir(exist_ok=True)

    def __call__(self, name: str, *settings: str) -> Path:
        """The folder of `mdpnewton run NAME [SETTINGS]`, complete; only for reading."""
        folder = self.base / "_".join([name, *settings]).replace("/", "-")
        with (self.base / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
            if not (whole := self.base / f"{folder.name}.whole").exists():
                assert main(["run", name, "--out", str(folder), *settings]) == 0
                whole.touch()
        return folder

    def copy_jobs(self, folder: Path, name: str, *settings: str) -> None:
        """Put the finished jobs of such a run into a folder in which nothing is yet.

        The same command with this folder then does all but the jobs: it plans, reads, draws, writes
        and shows.
        """
        done = self(name, *settings)
        shutil.copytree(done / "jobs", folder / "jobs")
        shutil.copy(done / "config.json", folder)
