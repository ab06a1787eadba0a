"""How far to go along a direction: rules that look at a line and never move the parameters."""

from mdpnewton.steps.abstract import Line, Region, Step, StepRule
from mdpnewton.steps.line_searches import Armijo, Bracketing, StrongWolfe
from mdpnewton.steps.region import RegionStep
from mdpnewton.steps.rules import BestOfSet, Constant, Decay, KeepIfBetter
from mdpnewton.steps.shortening import KeepUnlessLost, KLSchedule, TrustedStep
from mdpnewton.steps.trust_region import KLStep, SurrogateBacktracking

__all__ = [
    "Armijo",
    "BestOfSet",
    "Bracketing",
    "Constant",
    "Decay",
    "KLSchedule",
    "KLStep",
    "KeepIfBetter",
    "KeepUnlessLost",
    "Line",
    "Region",
    "RegionStep",
    "Step",
    "StepRule",
    "StrongWolfe",
    "SurrogateBacktracking",
    "TrustedStep",
]
