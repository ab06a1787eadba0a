"""A policy for a finite MDP, by any exact method, and what it is worth beside the optimum."""

from collections.abc import Callable
from dataclasses import replace

import jax
from jaxtyping import PyTree

from mdpnewton.checks import instance, whole
from mdpnewton.curvature import gradient
from mdpnewton.evaluation import State
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.jobs import Checkpoint
from mdpnewton.loop import Record, SearchResult, search
from mdpnewton.methods import Method, Precondition, TightOffset, direction, method_for
from mdpnewton.models import FiniteMDP, SolveError
from mdpnewton.policies import Policy, TabularSoftmax
from mdpnewton.solve import Block, Dense, length
from mdpnewton.steps import Bracketing

MOST_STEPS = 20  # of Newton's method, from where the search ended
DENSE = 1_000  # parameters for which the Hessian is formed
FAR = 0.5  # a longer step, relative to the parameters, goes to another point


def plan_policy(
    mdp: FiniteMDP,
    policy: Policy,
    w: PyTree,
    method: str = "second_gauss_newton",
    *,
    iterations: int = 300,
    progress: Callable[[int, int, float], object] | None = None,
    checkpoint: Checkpoint | None = None,
) -> SearchResult:
    """Search for a policy with steps that are as long as they rise, or as their region allows.

    Whatever preconditions with H2 does so with the tight offset, so that neither costs nor
    differential values matter, and for a table by blocks, which are all that its H2 has.

    Args:
        mdp: The problem, of any criterion.
        policy: The policy.
        w: Parameters to start from.
        method: A method that applies in "exact".
        iterations: Maximum number of iterations.
        progress: Function that is called with the number of iterations done, their total and the
            objective.
        checkpoint: Keeps the state of the search, from which the same call goes on after a kill; a
            search that has ended is not done again.
    """
    instance("plan_policy", "mdp", mdp, FiniteMDP, "for a POMDP use `search_controllers`")
    whole("plan_policy", "iterations", iterations, 1)

    def called(record: Record, w: PyTree) -> None:
        if progress is not None:
            progress(record.iteration + 1, iterations, record.objective)

    kept = Checkpoint(None) if checkpoint is None else checkpoint
    before = kept.load() or {"search": None, "status": "", "failure": ""}
    states: list[Callable[[], State]] = []

    def keep(state: Callable[[], State]) -> None:
        states[:] = [state]
        kept.keep(lambda: {"search": state(), "status": "", "failure": ""})

    ended, chosen = before["status"], suited(method_for(method, "exact"), policy)
    found = search(
        FiniteEvaluator(mdp),
        policy,
        w,
        chosen,
        chosen.usual_step or Bracketing(),
        iterations=len(before["search"]["history"]) if ended else iterations,
        callback=called,
        checkpoint=keep,
        resume=before["search"],
    )
    if ended:
        return replace(found, status=ended, failure=before["failure"])
    if states:
        status = "" if found.status == "interrupted" else found.status
        last = {"search": states[0](), "status": status, "failure": found.failure}
        kept.keep(lambda: last, now=True)
    return found


def suited(method: Method, policy: Policy) -> Method:
    """The method with the offset and the solver that suit the policy."""
    if not isinstance(method, Precondition) or method.curvature not in ("H2", "fisher"):
        return method
    table = isinstance(policy, TabularSoftmax) and isinstance(method.solver, Dense)
    found = replace(method, solver=Block()) if table else method
    return replace(found, fisher_damping=TightOffset()) if found.curvature == "H2" else found


def stationary_point(mdp: FiniteMDP, policy: Policy, w: PyTree, iterations: int = 500) -> PyTree:
    """The end of a search, and from there Newton's steps while they bring the gradient down.

    Where the best policy is deterministic there is none at finite parameters: it is then the point
    that the search came to.

    Args:
        mdp: The problem, of any criterion.
        policy: The policy.
        w: Parameters to start from.
        iterations: Maximum number of iterations of the search.
    """
    evaluator, w = FiniteEvaluator(mdp), plan_policy(mdp, policy, w, iterations=iterations).w
    pairs = evaluator.evaluate(None, policy, w)
    many = sum(leaf.size for leaf in jax.tree.leaves(w)) > DENSE
    newton = "conjugate_gradient_newton" if many else "newton"
    norm, least = length(gradient(policy, w, pairs)), pairs.objective
    for _ in range(MOST_STEPS):
        ahead = direction(newton, policy, w, pairs)
        moved = jax.tree.map(lambda x, d: x + d, w, ahead.value)
        try:
            pairs = evaluator.evaluate(None, policy, moved)
        except SolveError:
            break
        now = length(gradient(policy, moved, pairs))
        lower = pairs.objective < least - 1e-9 * max(1.0, abs(least))
        if not now < norm or lower or length(ahead.value) > FAR * (1 + length(w)):
            break
        w, norm = moved, now
    return w
