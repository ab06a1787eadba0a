"""The command line: one flow for all commands and one file per command; it decides nothing else."""

from mdpnewton.cli.parser import main

__all__ = ["main"]
