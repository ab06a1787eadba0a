"""What a problem is, checked when it is built; nothing here knows a policy's parameters."""

from mdpnewton.models.chains import policy_chain
from mdpnewton.models.closed_loop import ClosedLoop
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.horizon import HorizonChain, unrolled
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.models.policy_chain import PolicyChain
from mdpnewton.models.pomdp import FinitePOMDP, product_mdp
from mdpnewton.models.quadratic import QuadraticMDP
from mdpnewton.models.recurrence import ChainError, SolveError

__all__ = [
    "ChainError",
    "ClosedLoop",
    "FiniteMDP",
    "FinitePOMDP",
    "HorizonChain",
    "LinearGaussianMDP",
    "PolicyChain",
    "QuadraticMDP",
    "SolveError",
    "policy_chain",
    "product_mdp",
    "unrolled",
]
