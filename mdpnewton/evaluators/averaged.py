"""The curvature of many iterations beside the gradient of the newest."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, instance, number, refuse, whole
from mdpnewton.curvature import curvature, gradient
from mdpnewton.evaluation import AccumulatedMatrices, Evaluation, Evaluator, State
from mdpnewton.forms import FORMS
from mdpnewton.hessian import policy_hessian
from mdpnewton.plain import entries

KNOWN = ("hessian", *FORMS)


class AveragedCurvature(Evaluator):
    r"""An exponential average of curvature over iterations, and the newest gradient.

    In iteration t, from 1 on, every matrix C is replaced by

    $$M_t = \frac{1-\beta}{1-\beta^t} \sum_{s=1}^{t} \beta^{t-s} C_s .$$

    A matrix needs more samples than a gradient, and changes less from step to step: at rest the
    variance of M is $(1-\beta)/(1+\beta)$ of that of C.

    **Its bias.** The divisor $1-\beta^t$, as in Adam, takes away the bias towards zero at the
    beginning, and nothing else. What stays is a lag: the $C_s$ belong to earlier parameters, so
    that M is the curvature of about $\beta/(1-\beta)$ iterations ago. If C changes by D per
    iteration, M is off by $-D\,\beta/(1-\beta)$ in the long run. It vanishes as a search converges;
    where steps are long it may be larger than the noise that it saves.

    The average has the size of the whole matrix, so that this is for few parameters. What an undone
    step saw is taken out again. Step rules that ask for slopes beside the point, such as
    `StrongWolfe`, would be averaged too: use one that looks at objectives alone.

    Attributes:
        evaluator: The evaluator inside, which gives weighted pairs.
        decay: $\beta$, within [0, 1).
        forms: What is averaged: names in `FORMS`, and "hessian" where the evaluator knows it. The
            Fisher matrix is there for step rules, of the newest evaluation if it is not named.
        count: Number of evaluations in the averages.
    """

    def __init__(
        self, evaluator: Evaluator, decay: float = 0.9, forms: Sequence[str] = ("H2", "fisher")
    ):
        call = "AveragedCurvature"
        remedy = "subclass `mdpnewton.Evaluator`"
        self.evaluator: Evaluator = instance(call, "evaluator", evaluator, Evaluator, remedy)
        self.decay = number(call, "decay", decay, least=0, below=1)
        if isinstance(forms, str) or not forms:
            refuse(call, "forms", "needs a tuple of names, as ('H2', 'fisher')")
        self.forms = tuple(choice(call, "forms", form, KNOWN) for form in forms)
        self.count = 0
        self._sums: dict[str, np.ndarray] = {}
        self._before: tuple[int, dict[str, np.ndarray]] = (0, {})

    def evaluate(self, key: Any, policy: Any, w: PyTree) -> AccumulatedMatrices:
        """Evaluate at `w` and count its curvature."""
        found = self.evaluator.evaluate(key, policy, w)
        self._before = (self.count, self._sums)
        return self._counted(found, policy, w)

    def revisit(self, key: Any, policy: Any, w: PyTree, known: Evaluation) -> Evaluation:
        """What the evaluator inside finds on its return, without the point that was left."""
        self.count, self._sums = self._before
        found = self.evaluator.revisit(key, policy, w, known)
        return known if found is known else self._counted(found, policy, w)

    def again(self, key: Any, policy: Any, w: PyTree) -> AccumulatedMatrices:
        """The last evaluation by the evaluator inside, with the averages as they are."""
        return self._averaged(self.evaluator.again(key, policy, w), policy, w)

    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """The objective of the evaluator inside."""
        return self.evaluator.objective(key, policy, w)

    def state(self) -> State:
        """The averages, and the state of the evaluator inside."""
        count, sums = self._before
        return {
            "evaluator": self.evaluator.state(),
            "count": self.count,
            "sums": dict(self._sums),
            "before": {"count": count, "sums": dict(sums)},
        }

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call = "AveragedCurvature.restored"
        inside, count, sums, before = entries(call, state, "evaluator", "count", "sums", "before")
        found = copy(self)
        found.evaluator = self.evaluator.restored(inside)
        found.count, found._sums = self._checked(call, count, sums)
        found._before = self._checked(call, *entries(call, before, "count", "sums"))
        return found

    def _checked(self, call: str, count: Any, sums: Any) -> tuple[int, dict[str, np.ndarray]]:
        names = sorted(self.forms) if count else []
        found = dict(zip(names, entries(call, sums, *names), strict=True))
        arrays = {name: np.asarray(one, float) for name, one in found.items()}
        for one in arrays.values():
            if one.ndim != 2 or one.shape[0] != one.shape[1]:
                refuse(call, "sums", f"needs square matrices, got shape {one.shape}")
        return whole(call, "count", count), arrays

    def _counted(self, found: Evaluation, policy: Any, w: PyTree) -> AccumulatedMatrices:
        new = {form: self._matrix(found, policy, w, form) for form in self.forms}
        if all(np.isfinite(one).all() for one in new.values()):
            beta, old = self.decay, self._sums
            self._sums = {
                form: (1 - beta) * one + (beta * old[form] if old else 0.0)
                for form, one in new.items()
            }
            self.count += 1
        return self._averaged(found, policy, w)

    def _averaged(self, found: Evaluation, policy: Any, w: PyTree) -> AccumulatedMatrices:
        share = 1 - self.decay**self.count
        matrices = {form: jnp.asarray(one / share) for form, one in self._sums.items()}
        if "fisher" not in matrices:
            matrices["fisher"] = jnp.asarray(self._matrix(found, policy, w, "fisher"))
        if isinstance(found, AccumulatedMatrices):
            decisions = found.decisions
        else:
            decisions = float(np.sum(np.asarray(found.occupancy)))
        return AccumulatedMatrices(
            gradient=gradient(policy, w, found),
            matrices=matrices,
            objective=found.objective,
            objective_error=found.objective_error,
            decisions=decisions,
            stage=found.stage,
        )

    def _matrix(self, found: Evaluation, policy: Any, w: PyTree, form: str) -> np.ndarray:
        made = policy_hessian if form == "hessian" else _form(form)
        return np.asarray(made(policy, w, found).dense())


def _form(form: str) -> Any:
    return lambda policy, w, found: curvature(policy, w, found, form)
