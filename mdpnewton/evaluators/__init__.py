"""Ways to evaluate a policy; each returns the library's Evaluation."""

from mdpnewton.evaluators.finite import FiniteEvaluator

__all__ = ["FiniteEvaluator"]
