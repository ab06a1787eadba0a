"""What the Hessian of a policy looks like at a point; nothing here changes the parameters."""

from mdpnewton.analysis.finite import Analysis, analyze, value_consistency
from mdpnewton.analysis.linear_gaussian import LinearGaussianAnalysis, analyze_linear_gaussian

__all__ = [
    "Analysis",
    "LinearGaussianAnalysis",
    "analyze",
    "analyze_linear_gaussian",
    "value_consistency",
]
