"""Which way to go: the table of methods and what its rows are made of; how far is for `steps`."""

from mdpnewton.methods.abstract import Direction, Method, Situation
from mdpnewton.methods.ask import direction, method_named
from mdpnewton.methods.compatible import Compatible
from mdpnewton.methods.expectation_maximization import (
    BlockwiseMaximization,
    ExpectationMaximization,
)
from mdpnewton.methods.exploring import Exploring
from mdpnewton.methods.first_order import RandomDirection, Steepest
from mdpnewton.methods.guarded import Guarded
from mdpnewton.methods.places import PLACES, Row, Settings
from mdpnewton.methods.precondition import Precondition, TightOffset
from mdpnewton.methods.table import (
    METHODS,
    TABLE,
    MethodsOf,
    listed,
    method_for,
    names,
    row_named,
)

__all__ = [
    "METHODS",
    "PLACES",
    "TABLE",
    "BlockwiseMaximization",
    "Compatible",
    "Direction",
    "ExpectationMaximization",
    "Exploring",
    "Guarded",
    "Method",
    "MethodsOf",
    "Precondition",
    "RandomDirection",
    "Row",
    "Settings",
    "Situation",
    "Steepest",
    "TightOffset",
    "direction",
    "listed",
    "method_for",
    "method_named",
    "names",
    "row_named",
]
