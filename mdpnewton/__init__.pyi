from .analysis import Analysis, analyze, value_consistency
from .closed_loop import ClosedLoop
from .curvature import FORMS, Curvature, Form, curvature, gradient, surrogate
from .evaluation import Evaluation, Evaluator, WeightedPairs
from .evaluators import FiniteEvaluator
from .hessian import (
    PolicyHessian,
    cross_term,
    hessian_terms,
    policy_hessian,
    value_gradient,
)
from .mdp import FiniteMDP
from .methods import (
    METHODS,
    Compatible,
    Direction,
    ExpectationMaximization,
    Method,
    Precondition,
    Steepest,
    direction,
)
from .policies import (
    Categorical,
    Gaussian,
    Gibbs,
    LinearGaussian,
    Policy,
    PolicyCheck,
    Reparametrized,
    TabularSoftmax,
    check_policy,
    gibbs_over_successors,
)
from .search import Record, SearchResult, search
from .solve import Block, ConjugateGradient, Dense, Diagonal, Solver, SolveReport, SteepestDescent
from .steps import (
    Armijo,
    BestOfSet,
    Constant,
    Decay,
    KeepIfBetter,
    Line,
    Step,
    StepRule,
    StrongWolfe,
)
from .version import __version__

__all__ = [
    # the problem
    "FiniteMDP",
    "ClosedLoop",
    # policies
    "Policy",
    "Categorical",
    "Gibbs",
    "gibbs_over_successors",
    "TabularSoftmax",
    "LinearGaussian",
    "Gaussian",
    "Reparametrized",
    "PolicyCheck",
    "check_policy",
    # evaluation
    "Evaluation",
    "Evaluator",
    "WeightedPairs",
    "FiniteEvaluator",
    # curvature
    "FORMS",
    "Form",
    "Curvature",
    "curvature",
    "gradient",
    "surrogate",
    "PolicyHessian",
    "policy_hessian",
    "hessian_terms",
    "cross_term",
    "value_gradient",
    # methods
    "METHODS",
    "Method",
    "Steepest",
    "Precondition",
    "Compatible",
    "ExpectationMaximization",
    "Direction",
    "direction",
    # solving
    "Solver",
    "SolveReport",
    "Dense",
    "Block",
    "Diagonal",
    "ConjugateGradient",
    "SteepestDescent",
    # steps
    "StepRule",
    "Step",
    "Line",
    "Constant",
    "Decay",
    "BestOfSet",
    "KeepIfBetter",
    "Armijo",
    "StrongWolfe",
    # the loop
    "Record",
    "SearchResult",
    "search",
    # analysis
    "Analysis",
    "analyze",
    "value_consistency",
    "__version__",
]
