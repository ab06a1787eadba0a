"""Which way to go: the table of methods and what its rows are made of; how far is for `steps`."""

from mdpnewton.methods.abstract import Direction, Method, Situation
from mdpnewton.methods.compatible import Compatible
from mdpnewton.methods.expectation_maximization import (
    BlockwiseMaximization,
    ExpectationMaximization,
)
from mdpnewton.methods.first_order import RandomDirection, Steepest
from mdpnewton.methods.guarded import Guarded
from mdpnewton.methods.precondition import Precondition, TightOffset
from mdpnewton.methods.table import METHODS, direction, method_named

__all__ = [
    "METHODS",
    "BlockwiseMaximization",
    "Compatible",
    "Direction",
    "ExpectationMaximization",
    "Guarded",
    "Method",
    "Precondition",
    "RandomDirection",
    "Situation",
    "Steepest",
    "TightOffset",
    "direction",
    "method_named",
]
