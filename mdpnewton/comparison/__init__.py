"""Numbers over several runs: intervals, paired differences, profiles; `report` shows them."""

from mdpnewton.comparison.intervals import (
    gain,
    improvement,
    interquartile_mean,
    interval,
    overall,
    paired_differences,
    profile,
)
from mdpnewton.comparison.runs import Run, compared

__all__ = [
    "Run",
    "compared",
    "gain",
    "improvement",
    "interquartile_mean",
    "interval",
    "overall",
    "paired_differences",
    "profile",
]
