from .analysis import Analysis, analyze, value_consistency
from .closed_loop import ClosedLoop
from .controller_search import Restarts, search_controllers
from .curvature import Curvature, curvature, gradient, surrogate
from .evaluation import AccumulatedMatrices, Evaluation, Evaluator, WeightedPairs
from .evaluators import (
    ActorCritic,
    CompatibleCritic,
    ControllerEvaluator,
    FiniteEvaluator,
    LinearCritic,
    LinearGaussianEvaluator,
    MonteCarlo,
    NetworkCritic,
    QuadraticEvaluator,
    linear_gaussian_terms,
    random_starts,
)
from .forms import FORMS, Form
from .hessian import (
    PolicyHessian,
    cross_term,
    hessian_terms,
    policy_hessian,
    value_gradient,
)
from .line_searches import Armijo, Bracketing, StrongWolfe
from .linear_gaussian import LinearGaussianMDP
from .mdp import FiniteMDP
from .methods import (
    METHODS,
    Compatible,
    Direction,
    ExpectationMaximization,
    Method,
    Precondition,
    RandomDirection,
    Steepest,
    TightOffset,
    direction,
)
from .policies import (
    AffineGaussian,
    Categorical,
    Deviation,
    FiniteStateController,
    Gaussian,
    Gibbs,
    LinearGaussian,
    LinearSoftmax,
    NetworkCategorical,
    NetworkGaussian,
    NoisyGain,
    OneHot,
    Policy,
    PolicyCheck,
    RadialBasis,
    RandomFourier,
    Reparametrized,
    Standardized,
    TabularSoftmax,
    check_policy,
    gibbs_over_successors,
    mlp,
)
from .pomdp import FinitePOMDP, product_mdp
from .presets import PRACTICAL, Preset
from .quadratic import QuadraticMDP
from .search import Record, SearchResult, search
from .simulators import (
    CompiledSimulator,
    FiniteSimulator,
    GymnasiumSimulator,
    SimulationError,
    Simulator,
    Spaces,
)
from .solve import Block, ConjugateGradient, Dense, Diagonal, Solver, SolveReport, SteepestDescent
from .steps import (
    BestOfSet,
    Constant,
    Decay,
    KeepIfBetter,
    Line,
    Step,
    StepRule,
)
from .training import Training, train
from .trajectories import Trajectories
from .trust_region import KLStep, SurrogateBacktracking
from .version import __version__

__all__ = [
    # the problem
    "FiniteMDP",
    "LinearGaussianMDP",
    "QuadraticMDP",
    "FinitePOMDP",
    "product_mdp",
    "ClosedLoop",
    "Simulator",
    "Spaces",
    "Trajectories",
    "CompiledSimulator",
    "FiniteSimulator",
    "GymnasiumSimulator",
    "SimulationError",
    # policies
    "Policy",
    "Categorical",
    "Gibbs",
    "gibbs_over_successors",
    "TabularSoftmax",
    "FiniteStateController",
    "LinearGaussian",
    "LinearSoftmax",
    "Gaussian",
    "AffineGaussian",
    "Deviation",
    "NoisyGain",
    "NetworkCategorical",
    "NetworkGaussian",
    "mlp",
    "Standardized",
    "RandomFourier",
    "RadialBasis",
    "OneHot",
    "Reparametrized",
    "PolicyCheck",
    "check_policy",
    # evaluation
    "Evaluation",
    "Evaluator",
    "WeightedPairs",
    "AccumulatedMatrices",
    "FiniteEvaluator",
    "ControllerEvaluator",
    "LinearGaussianEvaluator",
    "QuadraticEvaluator",
    "MonteCarlo",
    "ActorCritic",
    "CompatibleCritic",
    "LinearCritic",
    "NetworkCritic",
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
    "linear_gaussian_terms",
    # methods
    "METHODS",
    "Method",
    "Steepest",
    "Precondition",
    "Compatible",
    "ExpectationMaximization",
    "RandomDirection",
    "TightOffset",
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
    "Bracketing",
    "StrongWolfe",
    "KLStep",
    "SurrogateBacktracking",
    # the loop
    "Record",
    "SearchResult",
    "search",
    "random_starts",
    "search_controllers",
    "Restarts",
    "Preset",
    "PRACTICAL",
    "Training",
    "train",
    # analysis
    "Analysis",
    "analyze",
    "value_consistency",
    "__version__",
]
