"""A model that is brought to an experiment by `--set model=...`, in place of its own problems."""

import hashlib
from pathlib import Path

import jax
from jaxtyping import PyTree

from mdpnewton.files.pomdp import load_pomdp, pomdp_source
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.policies import Policy
from mdpnewton.training.bring import brought, model_digest

MOST = 1_000  # parameters of a policy whose matrices an experiment forms


def own_mdp(
    model: str, digest: str = "", most: int | None = None
) -> tuple[FiniteMDP, Policy, PyTree]:
    """A finite MDP, a policy for it and its parameters.

    Args:
        model: A model file, or a tabular environment such as FrozenLake-v1.
        digest: What `mdp_digest` found when the run was planned; empty for whatever is there.
        most: Largest number of parameters of the policy; None for no bound.
    """
    mdp, policy, w = brought(Path(model), None, None, None)
    if not isinstance(mdp, FiniteMDP):
        raise ValueError(f"--set model={model}: needs a finite MDP; `analyze` reads this model")
    size = sum(leaf.size for leaf in jax.tree.leaves(w))
    if most is not None and size > most:
        raise ValueError(
            f"--set model={model}: has {size:,} parameters, and their matrices are formed here; "
            f"bring features so that there are at most {most:,}, or use `mdpnewton solve`"
        )
    if digest and digest != model_digest(mdp, policy, w):
        raise ValueError(f"{model}: is no longer what it was when the run began; run it again")
    return mdp, policy, w


def own_pomdp(model: str, digest: str = "") -> FinitePOMDP:
    """A POMDP from a file, or one that comes with the library.

    Args:
        model: The file, or the name of a problem.
        digest: What `pomdp_digest` found when the run was planned; empty for whatever is there.
    """
    if digest and digest != pomdp_digest(model):
        raise ValueError(f"{model}: is no longer what it was when the run began; run it again")
    return load_pomdp(model)


def mdp_digest(model: str, most: int | None = None) -> str:
    """What jobs are told besides the name of a finite MDP; another content is another job."""
    return model_digest(*own_mdp(model, most=most))


def pomdp_digest(model: str) -> str:
    """What jobs are told besides the name of a POMDP; another text is another job."""
    return hashlib.sha256(pomdp_source(model)[0].encode()).hexdigest()
