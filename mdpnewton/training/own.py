"""Policies that the user gives to a training: whether they fit, before anything is played."""

from typing import Any, get_args

import jax

from mdpnewton.checks import choice, refuse
from mdpnewton.policies import Policy
from mdpnewton.simulators import Spaces
from mdpnewton.training.presets import OWN, Kind, PolicyKind

WITHOUT_OUTPUTS = ("steepest", "random", "first_gauss_newton")  # methods that need none


def own_policy(policy: Any) -> tuple[Policy | None, Kind]:
    """The policy and its kind; no policy if it is to be made."""
    if isinstance(policy, Policy):
        return policy, OWN
    kind: Kind = choice("train", "policy", policy, get_args(PolicyKind))
    return None, kind


def check_fits(policy: Policy, spaces: Spaces, method: str) -> None:
    """Refuse a policy that cannot act in these spaces or lacks what the method needs.

    Args:
        policy: The policy.
        spaces: Spaces of observations and actions, with unit actions.
        method: Name of the method.
    """
    key, w = jax.random.key(0), policy.initial_parameters()
    seen = jax.ShapeDtypeStruct((spaces.observation,), float)
    action = _traced(policy, "sample", key, w, seen, spaces=spaces)
    shape = (spaces.action_size,) if spaces.continuous else ()
    if spaces.choices is not None:
        shape = (len(spaces.choices),)
    kind = "a float" if spaces.continuous else "an integer"
    mode = _traced(policy, "mode", w, seen, spaces=spaces)
    for name, found in (("sample", action), ("mode", mode)):
        fits = getattr(found, "shape", None) == shape
        if not fits or (found.dtype.kind == "f") != spaces.continuous:
            told = f"{found.dtype} of shape {found.shape}" if hasattr(found, "shape") else found
            rule = f"needs actions of {kind} type and of shape {shape}, its `{name}` gives {told}"
            refuse("train", "policy", rule)
    log_prob = _traced(policy, "log_prob", w, seen, action, spaces=spaces)
    if log_prob.shape != ():
        refuse("train", "policy", f"needs a scalar `log_prob`, got shape {log_prob.shape}")
    if method not in WITHOUT_OUTPUTS:
        _traced(policy, "outputs", w, seen, spaces=spaces)


def _traced(policy: Policy, name: str, *arguments: Any, spaces: Spaces) -> Any:
    """What a function of the policy would return, by shape and type."""
    try:
        return jax.eval_shape(getattr(policy, name), *arguments)
    except Exception as error:
        told = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        size = f"an observation of length {spaces.observation}"
        refuse("train", "policy", f"`{type(policy).__name__}.{name}` fails with {size}: {told}")
