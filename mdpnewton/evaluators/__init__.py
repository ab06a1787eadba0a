"""Turn a model or a simulator and a policy into an `Evaluation`; nothing here differentiates."""

from mdpnewton.evaluators.actor_critic import ActorCritic
from mdpnewton.evaluators.averaged import AveragedCurvature
from mdpnewton.evaluators.bandit import Bandit
from mdpnewton.evaluators.compatible import CompatibleCritic
from mdpnewton.evaluators.controller import ControllerEvaluator, random_starts
from mdpnewton.evaluators.critics import Critic, LinearCritic, NetworkCritic
from mdpnewton.evaluators.crossing import EpisodeCrossing
from mdpnewton.evaluators.episodic import MonteCarlo
from mdpnewton.evaluators.finite import FiniteEvaluator
from mdpnewton.evaluators.linear_gaussian import LinearGaussianEvaluator
from mdpnewton.evaluators.linear_gaussian_terms import linear_gaussian_terms
from mdpnewton.evaluators.quadratic import QuadraticEvaluator
from mdpnewton.evaluators.recurrent import RecurrentState
from mdpnewton.evaluators.rivals import Rivals
from mdpnewton.evaluators.shaping import Shaped, rank_utilities, shaped

__all__ = [
    "ActorCritic",
    "AveragedCurvature",
    "Bandit",
    "CompatibleCritic",
    "ControllerEvaluator",
    "Critic",
    "EpisodeCrossing",
    "FiniteEvaluator",
    "LinearCritic",
    "LinearGaussianEvaluator",
    "MonteCarlo",
    "NetworkCritic",
    "QuadraticEvaluator",
    "RecurrentState",
    "Rivals",
    "Shaped",
    "linear_gaussian_terms",
    "random_starts",
    "rank_utilities",
    "shaped",
]
