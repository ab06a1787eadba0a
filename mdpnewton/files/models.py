"""Reads models from .npz files without unpickling anything."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.files.arrays import check_keys, number, read_arrays
from mdpnewton.files.finite_models import finite_model, is_finite_model
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies import AffineGaussian, Policy

DYNAMICS = ("A", "B", "noise", "start_mean", "start_covariance", "horizon")
PROBLEM = (*DYNAMICS, "reward_map", "reward_target", "reward_covariance")
AFFINE = ("gain", "offset", "sigma")
CHOICES = ("discount", "at_end", "reward_weight")
NUMBERS = ("horizon", "sigma", "discount", "at_end")

Model = tuple[FiniteMDP, Policy, PyTree] | tuple[LinearGaussianMDP, AffineGaussian, PyTree]


def load_model(path: Path | str) -> Model:
    """The MDP, the policy and its parameters in a model file.

    A finite MDP has the keys `transition` (S, A, S), `reward` (S, A), `start` (S) and `discount`,
    or instead of the last `criterion` and perhaps `horizon`. A sparse one has `transition_data`,
    `transition_indices` and `transition_indptr`, a CSR matrix of shape (S*A, S). Optional keys are
    `features` (S, A, n) for a Gibbs policy, without which the policy is a tabular softmax,
    `weights`, which are zeros by default, `stop`, `state_names` and `action_names`. A
    linear-Gaussian model has the arguments of `LinearGaussianMDP`, and `gain`, `offset` and
    `sigma`.
    """
    path = Path(path)
    arrays = read_arrays(path)
    if set(arrays) & {*PROBLEM, *AFFINE} and not is_finite_model(arrays):
        return _linear_gaussian(path, arrays)
    return finite_model(path, arrays)


def _linear_gaussian(
    path: Path, arrays: dict[str, Any]
) -> tuple[LinearGaussianMDP, AffineGaussian, PyTree]:
    check_keys(path, arrays, "linear-Gaussian model", (*PROBLEM, *AFFINE), CHOICES)
    for name, array in arrays.items():
        if not array.size:
            raise ValueError(f"{path}: {name} is empty, of shape {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} must be finite, but has NaN or infinite entries")
    numbers = {name: number(path, arrays, name) for name in NUMBERS if name in arrays}
    if numbers.get("at_end", 0) not in (0, 1):
        raise ValueError(f"{path}: at_end must be true or false, got {numbers['at_end']}")
    horizon = numbers["horizon"]  # the file has arrays of any kind
    whole = {"horizon": int(horizon) if horizon.is_integer() else horizon}
    given = {**arrays, **numbers, **whole, "at_end": bool(numbers.get("at_end", 0))}
    mdp = LinearGaussianMDP(**{name: given[name] for name in (*PROBLEM, *CHOICES) if name in given})
    policy = AffineGaussian(mdp.n_actions, mdp.n_states)
    return mdp, policy, policy.parameters(*(given[name] for name in AFFINE))
