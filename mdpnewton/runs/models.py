"""Reading models from .npz files, never unpickling anything."""

import zipfile
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.mdp import FiniteMDP
from mdpnewton.policies import Gibbs, Policy, TabularSoftmax

NEEDED = ("transition", "reward", "start", "discount")
OPTIONAL = ("features", "weights")


def load_model(path: Path) -> tuple[FiniteMDP, Policy, PyTree]:
    """The MDP, the policy and its parameters in a model file.

    Keys: `transition` (S, A, S), `reward` (S, A), `start` (S), `discount`; optional
    `features` (S, A, n) for a Gibbs policy, without which the policy is a tabular softmax;
    optional `weights`, zeros by default.
    """
    arrays = _arrays(path)
    unknown = sorted(set(arrays) - {*NEEDED, *OPTIONAL})
    missing = [name for name in NEEDED if name not in arrays]
    if unknown or missing:
        wrong = [f"unknown key {name!r}" for name in unknown]
        wrong += [f"missing key {name!r}" for name in missing]
        raise ValueError(
            f"{path}: {', '.join(wrong)}; a model has {', '.join(NEEDED)} and may have "
            f"{', '.join(OPTIONAL)}"
        )
    if np.size(arrays["discount"]) != 1:
        raise ValueError(
            f"{path}: discount must be one number, got shape {arrays['discount'].shape}"
        )
    discount = float(np.ravel(arrays["discount"])[0])
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


def _arrays(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; write one with numpy.savez")
    try:
        with path.open("rb") as file:
            found = np.load(file, allow_pickle=False)
            if not isinstance(found, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            arrays = {name: found[name] for name in found.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, KeyError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"{path}: is not a whole .npz file of plain arrays ({reason}); write it with "
            f"numpy.savez"
        ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} must hold real numbers, got dtype {array.dtype}")
    return arrays
