"""Problems whose states are seen through observations."""

from mdpnewton.models.pomdp.beliefs import optimal_value
from mdpnewton.models.pomdp.bounds import UpperBounds, upper_bounds
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.pomdp.outcomes import ANY, OutcomeReward
from mdpnewton.models.pomdp.played import Simulated, simulated_value
from mdpnewton.models.pomdp.product import product_mdp

__all__ = [
    "ANY",
    "FinitePOMDP",
    "OutcomeReward",
    "Simulated",
    "UpperBounds",
    "optimal_value",
    "product_mdp",
    "simulated_value",
    "upper_bounds",
]
