"""A process that dies after any of its operations on files, as often as there are operations."""

import os
from contextlib import suppress
from pathlib import Path

from mdpnewton.files import folder as files

EVERY = ("open", "fsync", "replace")
STATES = ("fsync",)  # after the writing of a file, and after its renaming


class Dead(BaseException):
    """The process is no more."""


class Mortal:
    """The operating system of a process that dies after so many operations on files."""

    def __init__(self, left, operations):
        self.left, self.operations = left, operations

    def __getattr__(self, name):
        known = getattr(os, name)
        if name not in self.operations:
            return known
        return lambda *arguments: self.after(known, *arguments)

    def after(self, operation, *arguments, **options):
        if self.left <= 0:
            raise Dead
        self.left -= 1
        found = operation(*arguments, **options)
        if not self.left:
            raise Dead
        return found


def every_death(monkeypatch, command, check, operations=EVERY):
    """Let a command die after the first operation, the second, ...; returns how many there were.

    Args:
        monkeypatch: Replaces the operating system for as long as the command runs.
        command: Called with the name of a new folder; gives the exit status.
        check: Called with the folder and the number of the operation after every death.
        operations: Names of the operations that are counted, beside the unlinking of files.
    """
    unlink, moment = Path.unlink, 0
    while True:
        moment += 1
        system, folder = Mortal(moment, operations), f"x{moment}"
        with monkeypatch.context() as patch:
            patch.setattr(files, "os", system)
            patch.setattr(Path, "unlink", lambda *a, s=system, **o: s.after(unlink, *a, **o))
            with suppress(Dead):
                assert command(folder) == 0
        if system.left:
            return moment - system.left
        check(folder, moment)
