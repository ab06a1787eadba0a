"""Methods, step rules and parameters of the manipulator's two comparisons, Section 6.4."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import PyTree

from mdpnewton.methods import ExpectationMaximization, Method, Situation, method_named
from mdpnewton.report.figures import Look, Looks
from mdpnewton.solve import SolveReport
from mdpnewton.steps import Armijo, Bracketing, Constant, StepRule, StrongWolfe

# The paper's five line searches, by the names of the setting `rule`.
RULES: dict[str, Any] = {
    "halving": Armijo,
    "quadratic": lambda initial: Armijo(initial, interpolation="quadratic"),
    "gradient": lambda initial: Armijo(initial, interpolation="gradient"),
    "bisection": Bracketing,
    "wolfe": StrongWolfe,
}
FIRST_SIZES = ("quadratic", "twice")  # and its two first sizes
SIZES = (0.001, 0.01, 0.1, 1.0, 10.0, 20.0, 30.0, 100.0, 250.0)  # of a fixed step
LONG_SIZES = (10.0, 20.0, 30.0, 100.0, 250.0)  # for second Gauss-Newton
BLOCK = "block_second_gauss_newton"
EM = "expectation_maximization"


class LongMean(Method):
    """EM with a longer step of the mean; sigma follows EM's rule and therefore stays positive.

    Attributes:
        factor: Factor by which the step of the mean is longer than EM's.
    """

    factor: float

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        step, report = ExpectationMaximization().direct(at)
        return {**step, "mean": self.factor * step["mean"]}, report


class RawSigma(Method):
    r"""A fixed step of a method in sigma, the paper's parameter, where w holds log sigma.

    With r the method's step of sigma, relative to sigma, the new log sigma is that of
    $\sigma (1 + \alpha r)$: not a number where the step would make sigma negative.

    Attributes:
        method: The method: "steepest", "natural", or second Gauss-Newton by blocks.
        size: The fixed step size, alpha.
    """

    method: str
    size: float

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        step, report = method_named(self.method).direct(at)
        relative = step["scale"]
        if self.method == "steepest":  # d/dsigma = 1/sigma d/dlog sigma
            relative = relative * jnp.exp(-2 * at.w["scale"])
        elif self.method == BLOCK:  # d2/dsigma2 = 1/sigma2 (d2/dlog sigma2 - d/dlog sigma)
            relative = relative / (1 + relative)
        return {
            "mean": self.size * step["mean"],
            "scale": jnp.log1p(self.size * relative),
        }, report


@dataclass(frozen=True)
class Row:
    """A method with its step rule.

    Attributes:
        method: The method that gives the direction.
        step: The step rule that says how far to go.
        iterations: Number of iterations as a multiple of `Config.iterations`.
        logarithm: Whether the line search looks at log U instead of U.
        default: Whether the row is shown if no methods are named.
    """

    method: str | Method
    step: StepRule = field(default_factory=lambda: StrongWolfe(initial="twice"))
    iterations: float = 1.0
    logarithm: bool = True
    default: bool = True

    @property
    def searches(self) -> bool:
        """Whether the row has a line search."""
        return not isinstance(self.step, Constant)

    def with_rule(self, rule: str, first: str) -> "Row":
        """The row with another line search; the same row if it has none."""
        return replace(self, step=RULES[rule](initial=first)) if self.searches else self

    def with_raw_sigma(self) -> "Row":
        """The row with sigma for its parameter; the same row if sigma follows another rule."""
        if self.searches or not isinstance(self.method, str) or self.method == EM:
            return self
        assert isinstance(self.step, Constant)
        return replace(self, method=RawSigma(self.method, self.step.size), step=Constant(1.0))


SHOWN = ("second_gauss_newton_30", "second_gauss_newton_10", "second_gauss_newton_100")
FIXED = {
    **{name: Row(BLOCK, Constant(float(name.rpartition("_")[2]))) for name in SHOWN},
    "long_mean_30": Row(LongMean(30.0), Constant(1.0)),
    EM: Row(EM, Constant(1.0)),
    "natural_30": Row("natural", Constant(30.0), logarithm=False),
}
for _name, _method, _sizes, _logarithm in (
    ("second_gauss_newton", BLOCK, LONG_SIZES, True),
    ("natural", "natural", SIZES, False),
    ("steepest", "steepest", SIZES, False),
):
    for _size in _sizes:
        _row = Row(_method, Constant(_size), logarithm=_logarithm, default=False)
        FIXED.setdefault(f"{_name}_{_size:g}", _row)

ROWS = {
    "line search": {
        "second_gauss_newton": Row(BLOCK, logarithm=False),
        "log_second_gauss_newton": Row(BLOCK),
        "natural": Row("natural", logarithm=False),
        "log_natural": Row("natural"),
        EM: Row(EM, Constant(1.0), 3.0),
        "steepest": Row("steepest", logarithm=False),
        "log_steepest": Row("steepest"),
    },
    "fixed step": FIXED,
}


def _shades(name: str, label: str, sizes: tuple[float, ...], colors: list[str]) -> Looks:
    pairs = zip(sizes, colors, strict=True)
    return {f"{name}_{size:g}": Look(f"{label}, step {size:g}", color) for size, color in pairs}


VARIANTS: Looks = {
    "log_second_gauss_newton": Look("second Gauss-Newton on log U", "deepskyblue"),
    "log_natural": Look("natural gradient on log U", "darkkhaki"),
    "log_steepest": Look("steepest ascent on log U", "lightgreen"),
    **_shades(
        *("second_gauss_newton", "second Gauss-Newton", LONG_SIZES),
        ["deepskyblue", "cornflowerblue", "tab:blue", "navy", "black"],
    ),
    **_shades(
        *("natural", "natural gradient", SIZES),
        [
            "khaki",
            "gold",
            "goldenrod",
            "darkkhaki",
            "yellowgreen",
            "olivedrab",
            "tab:olive",
            "darkolivegreen",
            "dimgray",
        ],
    ),
    **_shades(
        *("steepest", "steepest ascent", SIZES),
        [
            "darkseagreen",
            "palegreen",
            "lightgreen",
            "limegreen",
            "tab:green",
            "seagreen",
            "green",
            "darkgreen",
            "darkslategray",
        ],
    ),
    "long_mean_30": Look("mean step 30, EM's sigma", "tab:orange"),
}
