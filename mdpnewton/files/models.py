"""Reads models from .npz files without unpickling anything."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.files.archive import ArchiveError, load_arrays
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies import AffineGaussian, Gibbs, Policy, TabularSoftmax

NEEDED = ("transition", "reward", "start", "discount")
OPTIONAL = ("features", "weights")

DYNAMICS = ("A", "B", "noise", "start_mean", "start_covariance", "horizon")
PROBLEM = (*DYNAMICS, "reward_map", "reward_target", "reward_covariance")
AFFINE = ("gain", "offset", "sigma")
CHOICES = ("discount", "at_end", "reward_weight")
NUMBERS = ("horizon", "sigma", "discount", "at_end")

Model = tuple[FiniteMDP, Policy, PyTree] | tuple[LinearGaussianMDP, AffineGaussian, PyTree]


def load_model(path: Path) -> Model:
    """The MDP, the policy and its parameters in a model file.

    A finite MDP has the keys `transition` (S, A, S), `reward` (S, A), `start` (S) and `discount`.
    Optional keys are `features` (S, A, n) for a Gibbs policy, without which the policy is a tabular
    softmax, and `weights`, which are zeros by default. A linear-Gaussian model has the arguments
    of `LinearGaussianMDP`, and `gain`, `offset` and `sigma`.
    """
    arrays = _arrays(path)
    if set(arrays) & {*PROBLEM, *AFFINE} and "transition" not in arrays:
        return _linear_gaussian(path, arrays)
    return _finite(path, arrays)


def _linear_gaussian(
    path: Path, arrays: dict[str, Any]
) -> tuple[LinearGaussianMDP, AffineGaussian, PyTree]:
    _check_keys(path, arrays, "linear-Gaussian model", (*PROBLEM, *AFFINE), CHOICES)
    for name, array in arrays.items():
        if not array.size:
            raise ValueError(f"{path}: {name} is empty, of shape {array.shape}")
        if not np.isfinite(array).all():
            raise ValueError(f"{path}: {name} must be finite, but has NaN or infinite entries")
    numbers = {name: _number(path, arrays, name) for name in NUMBERS if name in arrays}
    if numbers.get("at_end", 0) not in (0, 1):
        raise ValueError(f"{path}: at_end must be true or false, got {numbers['at_end']}")
    horizon = numbers["horizon"]  # the file has arrays of any kind
    whole = {"horizon": int(horizon) if horizon.is_integer() else horizon}
    given = {**arrays, **numbers, **whole, "at_end": bool(numbers.get("at_end", 0))}
    mdp = LinearGaussianMDP(**{name: given[name] for name in (*PROBLEM, *CHOICES) if name in given})
    policy = AffineGaussian(mdp.n_actions, mdp.n_states)
    return mdp, policy, policy.parameters(*(given[name] for name in AFFINE))


def _finite(path: Path, arrays: dict[str, Any]) -> tuple[FiniteMDP, Policy, PyTree]:
    _check_keys(path, arrays, "model", NEEDED, OPTIONAL)
    discount = _number(path, arrays, "discount")
    mdp = FiniteMDP(arrays["transition"], arrays["reward"], arrays["start"], discount)
    policy: Policy
    if "features" in arrays:
        policy = Gibbs(arrays["features"])
        if policy.table_shape != mdp.reward.shape:
            raise ValueError(
                f"{path}: features need shape ({mdp.n_states}, {mdp.n_actions}, n) to match "
                f"reward, got {arrays['features'].shape}"
            )
    else:
        policy = TabularSoftmax(mdp.n_states, mdp.n_actions)
    w = policy.initial_parameters()
    if "weights" in arrays:
        given = np.asarray(arrays["weights"], dtype=float)
        if given.size != w.size:
            raise ValueError(f"{path}: weights need {w.size} entries, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise ValueError(f"{path}: weights must be finite, but have NaN or infinite entries")
        w = jnp.asarray(given.reshape(w.shape))
    return mdp, policy, w


def _check_keys(
    path: Path,
    arrays: dict[str, Any],
    what: str,
    needed: tuple[str, ...],
    optional: tuple[str, ...],
) -> None:
    unknown = sorted(set(arrays) - {*needed, *optional})
    missing = [name for name in needed if name not in arrays]
    if unknown or missing:
        wrong = [f"unknown key {name!r}" for name in unknown]
        wrong += [f"missing key {name!r}" for name in missing]
        raise ValueError(
            f"{path}: {', '.join(wrong)}; a {what} has {', '.join(needed)} and may have "
            f"{', '.join(optional)}"
        )


def _number(path: Path, arrays: dict[str, Any], name: str) -> float:
    if np.size(arrays[name]) != 1:
        raise ValueError(f"{path}: {name} must be one number, got shape {arrays[name].shape}")
    return float(np.ravel(arrays[name])[0])


def _arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; write one with numpy.savez")
    try:
        arrays = load_arrays(path)
    except ArchiveError as error:
        raise ValueError(
            f"{path}: is not a whole .npz file of plain arrays ({error}); write it with numpy.savez"
        ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} must hold real numbers, got dtype {array.dtype}")
    return arrays
