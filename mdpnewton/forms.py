"""The table of the paper's matrices, each a row of the one function in `curvature`."""

from dataclasses import dataclass, field

from mdpnewton.checks import choice, instance, number, refuse

WEIGHTS = ("occupancy", "value", "advantage", "baseline")


@dataclass(frozen=True)
class Form:
    r"""Which weights, and how much of each second-order term, make a matrix.

    $\sum_i c_i (h \nabla\nabla^\top l_i + o \nabla l_i \nabla^\top l_i - g J_i^\top F_i J_i)$, as
    at the top of `curvature.py`. Forms of the same weights and numbers are equal.

    Attributes:
        weights: The weights c: "occupancy", "value", "advantage" or "baseline", which are fields
            of `WeightedPairs`.
        hessian: The factor h of the second derivatives of log pi.
        outer: The factor o of the products of scores.
        output: The factor g of the Fisher matrix of the policy's outputs.
        positive: Whether a solver wants the matrix itself; otherwise it wants minus the matrix, as
            it does for every part of the Hessian that is negative at an optimum. If it is not
            given, the numbers decide it, so that directions ascend: for weights that are not
            negative and a log-concave policy, h and g make a matrix negative and o makes it
            positive; one with advantages counts as a part of the Hessian.
    """

    weights: str
    hessian: float = 1.0
    outer: float = 0.0
    output: float = 0.0
    positive: bool | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        choice("Form", "weights", self.weights, WEIGHTS)
        for name, factor in self.terms.items():
            object.__setattr__(self, name, number("Form", name, factor))
        if not any(self.terms.values()):
            refuse("Form", "hessian", "is zero, and so are `outer` and `output`; give one of them")
        if self.positive is None:
            object.__setattr__(self, "positive", self._rises())
        instance("Form", "positive", self.positive, bool, "pass True, False or nothing")

    @property
    def terms(self) -> dict[str, float]:
        """The factors h, o and g by name."""
        return {"hessian": self.hessian, "outer": self.outer, "output": self.output}

    def _rises(self) -> bool:
        """Whether the matrix is positive rather than negative, by its numbers alone."""
        rise = 0.0 if self.weights == "advantage" else self.outer - self.hessian - self.output
        return (rise or -(self.outer or self.hessian or self.output)) > 0


FORMS = {
    "H1": Form("value", 0.0, 1.0),  # eq. (18)
    "H2": Form("value", 1.0, 0.0),  # eq. (19); minus it preconditions eq. (28)
    "A1": Form("advantage", 0.0, 1.0),  # Theorem 4
    "A2": Form("advantage", 1.0, 0.0),  # Theorem 4; zero for constant curvature, Lemma 3
    "A1+A2": Form("advantage", 1.0, 1.0),  # minus it preconditions eq. (27)
    "V1": Form("baseline", 0.0, 1.0),  # eq. (45)
    "V2": Form("baseline", 1.0, 0.0),  # eq. (45); minus V1, Lemma 2
    "fisher": Form("occupancy", -1.0, 0.0),  # eq. (13)
    "fisher_score": Form("occupancy", 0.0, 1.0),  # eq. (14)
    # Value-weighted generalised Gauss-Newton: V2 with the expectation over actions taken
    "generalized": Form("baseline", 0.0, 0.0, 1.0),
    "generalized_fisher": Form("occupancy", 0.0, 0.0, -1.0),  # eq. (13), the same way
}


def form_named(call: str, form: str | Form) -> Form:
    """The form of that name in `FORMS`, or the form itself.

    Args:
        call: Name of the class or function that was called.
        form: What was given.
    """
    if isinstance(form, Form):
        return form
    if not isinstance(form, str) or form not in FORMS:
        raise ValueError(
            f"`{call}(form=...)` knows {', '.join(FORMS)}, got {form!r}; or pass a "
            f"`Form(weights, hessian, outer, output)`."
        )
    return FORMS[form]
