"""Numbers over several runs: intervals, paired differences, profiles; how they look is for `report`."""

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
