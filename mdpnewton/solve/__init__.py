"""Ways to solve A x = b, each with a report; `methods` decide what A is.

A is minus a curvature, so that positive definite is the good case. Nothing is repaired silently:
the report of every solve says what was found, and what was done about it.
"""

from mdpnewton.solve.direct import Block, Dense, Diagonal
from mdpnewton.solve.iterative import ConjugateGradient, SteepestDescent
from mdpnewton.solve.region import Cubic, RegionSolver, TrustRegion
from mdpnewton.solve.report import Operator, Solver, SolveReport, inner, length, on_host

__all__ = [
    "Block",
    "ConjugateGradient",
    "Cubic",
    "Dense",
    "Diagonal",
    "Operator",
    "RegionSolver",
    "SolveReport",
    "Solver",
    "SteepestDescent",
    "TrustRegion",
    "inner",
    "length",
    "on_host",
]
