"""The model that a command names: a file, or a tabular environment of Gymnasium."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

ENVIRONMENT = re.compile(r"[\w./:-]+-v\d+")


def is_environment(name: Path) -> bool:
    """Whether it is the name of an environment, as FrozenLake-v1, and no file."""
    return bool(ENVIRONMENT.fullmatch(str(name))) and not name.is_file()


def brought(
    name: Path, discount: float | None, criterion: str | None, horizon: int | None
) -> tuple[Any, Any, Any]:
    """The problem, a policy for it and its parameters.

    Args:
        name: The file or the environment.
        discount: Discount factor; None for that of the file, and for an environment for none.
        criterion: What the objective adds up; None to leave it to the others.
        horizon: Number of actions of the criterion "finite", or None.
    """
    from mdpnewton.models.finite import FiniteMDP
    from mdpnewton.policies import TabularSoftmax

    if criterion is None and horizon is not None:
        criterion = "finite"
    given: dict[str, Any] = {"discount": discount, "criterion": criterion, "horizon": horizon}
    if is_environment(name):
        mdp = FiniteMDP.from_gymnasium(str(name), **given)
        policy = TabularSoftmax(mdp.n_states, mdp.n_actions)
        return mdp, policy, policy.initial_parameters()
    from mdpnewton.files.models import load_model

    model = load_model(name)
    if discount is None and criterion is None:
        return model
    if not isinstance(model[0], FiniteMDP):
        raise ValueError(f"{name}: --discount, --criterion and --horizon are for finite MDPs")
    wanted = {**given, "criterion": criterion or "discounted"}
    if discount is None and wanted["criterion"] == model[0].criterion == "discounted":
        wanted["discount"] = model[0].discount
    return replace(model[0], **wanted), *model[1:]


def model_digest(mdp: Any, policy: Any, w: Any) -> str:
    """SHA-256 of problem, policy and start: all that the search depends on but its settings."""
    import equinox as eqx
    import jax
    import numpy as np

    found = hashlib.sha256(type(policy).__name__.encode())
    matrix = mdp.transition
    parts = [matrix.data, matrix.indices, matrix.indptr] if mdp.is_sparse else [matrix]
    parts += [mdp.reward, mdp.start, *([] if mdp.stop is None else [mdp.stop])]
    for part in [*parts, *jax.tree.leaves(eqx.filter((policy, w), eqx.is_array))]:
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()
