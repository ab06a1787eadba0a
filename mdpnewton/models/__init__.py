"""What a problem is, checked when it is built; nothing here knows a policy's parameters."""

from mdpnewton.models.closed_loop import ClosedLoop, SolveError
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.models.pomdp import FinitePOMDP, product_mdp
from mdpnewton.models.quadratic import QuadraticMDP

__all__ = [
    "ClosedLoop",
    "FiniteMDP",
    "FinitePOMDP",
    "LinearGaussianMDP",
    "QuadraticMDP",
    "SolveError",
    "product_mdp",
]
