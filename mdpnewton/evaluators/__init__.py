"""Ways to evaluate a policy; each returns the library's Evaluation."""

from mdpnewton.evaluators.actor_critic import ActorCritic
from mdpnewton.evaluators.compatible import CompatibleCritic
from mdpnewton.evaluators.critics import Critic, LinearCritic, NetworkCritic
from mdpnewton.evaluators.episodic import MonteCarlo
from mdpnewton.evaluators.finite import FiniteEvaluator
from mdpnewton.evaluators.linear_gaussian import LinearGaussianEvaluator
from mdpnewton.evaluators.linear_gaussian_terms import linear_gaussian_terms
from mdpnewton.evaluators.quadratic import QuadraticEvaluator

__all__ = [
    "ActorCritic",
    "CompatibleCritic",
    "Critic",
    "FiniteEvaluator",
    "LinearCritic",
    "LinearGaussianEvaluator",
    "MonteCarlo",
    "NetworkCritic",
    "QuadraticEvaluator",
    "linear_gaussian_terms",
]
