"""What the problem is when states are seen through observations."""

from mdpnewton.pomdp.beliefs import optimal_value
from mdpnewton.pomdp.model import FinitePOMDP
from mdpnewton.pomdp.outcomes import ANY, OutcomeReward
from mdpnewton.pomdp.product import product_mdp

__all__ = ["ANY", "FinitePOMDP", "OutcomeReward", "optimal_value", "product_mdp"]
