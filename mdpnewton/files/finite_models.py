"""Finite MDPs as arrays of an .npz file, dense or sparse, and back."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from scipy import sparse

from mdpnewton.checks import instance
from mdpnewton.files.arrays import check_keys, number, word
from mdpnewton.files.folder import write_whole
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Gibbs, Policy, TabularSoftmax

SPARSE = ("transition_data", "transition_indices", "transition_indptr")
NEEDED = ("reward", "start")
OPTIONAL = ("features", "weights", "criterion", "horizon", "stop", "state_names", "action_names")


def is_finite_model(arrays: Mapping[str, Any]) -> bool:
    """Whether the arrays are those of a finite MDP."""
    return "transition" in arrays or any(name in arrays for name in SPARSE)


def finite_model(path: Path, arrays: Mapping[str, Any]) -> tuple[FiniteMDP, Policy, PyTree]:
    """The MDP, the policy and its parameters from the arrays of a file.

    Args:
        path: The file, as errors name it.
        arrays: What it holds.
    """
    form = SPARSE if any(name in arrays for name in SPARSE) else ("transition",)
    criterion = word(path, arrays, "criterion") if "criterion" in arrays else "discounted"
    discount = ("discount",) if criterion == "discounted" else ()
    optional = OPTIONAL if discount else (*OPTIONAL, "discount")
    check_keys(path, arrays, "model", (*form, *NEEDED, *discount), optional)
    mdp = FiniteMDP(
        _transition(path, arrays),
        arrays["reward"],
        arrays["start"],
        number(path, arrays, "discount") if "discount" in arrays else None,  # type: ignore[arg-type]
        criterion=criterion,  # type: ignore[arg-type]
        horizon=_whole(number(path, arrays, "horizon")) if "horizon" in arrays else None,
        stop=arrays.get("stop"),
        state_names=_names(arrays, "state_names"),
        action_names=_names(arrays, "action_names"),
    )
    policy: Policy = TabularSoftmax(mdp.n_states, mdp.n_actions)
    if "features" in arrays:
        policy = Gibbs(arrays["features"])
        if policy.table_shape != mdp.reward.shape:
            raise ValueError(
                f"{path}: features need shape ({mdp.n_states}, {mdp.n_actions}, n) to match "
                f"reward, got {arrays['features'].shape}"
            )
    w = policy.initial_parameters()
    if "weights" in arrays:
        given = np.asarray(arrays["weights"], dtype=float)
        if given.size != w.size:
            raise ValueError(f"{path}: weights need {w.size} entries, got shape {given.shape}")
        if not np.isfinite(given).all():
            raise ValueError(f"{path}: weights must be finite, but have NaN or infinite entries")
        w = jnp.asarray(given.reshape(w.shape))
    return mdp, policy, w


def save_model(
    path: Path | str, mdp: FiniteMDP, policy: Policy | None = None, w: PyTree | None = None
) -> Path:
    """Write a finite MDP as an .npz file that `analyze` and `solve` read; sparse ones stay sparse.

    Args:
        path: The file.
        mdp: The problem.
        policy: A `Gibbs` policy, whose features are written too; None or a `TabularSoftmax` for a
            table.
        w: Parameters of the policy; None to leave them out.

    Returns:
        The file.
    """
    call = "save_model"
    instance(call, "mdp", mdp, FiniteMDP, "pass a finite MDP")
    if not Path(path).parent.is_dir():
        raise ValueError(f"{path}: there is no folder {Path(path).parent}; make it first")
    kinds = Gibbs | TabularSoftmax | None
    instance(call, "policy", policy, kinds, "pass a Gibbs or TabularSoftmax policy, or None")
    content: dict[str, Any] = {"reward": mdp.reward, "start": mdp.start, "criterion": mdp.criterion}
    if mdp.is_sparse:
        parts = mdp.transition.data, mdp.transition.indices, mdp.transition.indptr
        content |= dict(zip(SPARSE, parts, strict=True))
    else:
        content["transition"] = mdp.transition
    if mdp.criterion in ("discounted", "finite"):
        content["discount"] = mdp.discount
    for name in ("horizon", "stop", "state_names", "action_names"):
        if getattr(mdp, name) is not None:
            content[name] = np.asarray(getattr(mdp, name))
    if isinstance(policy, Gibbs):
        content["features"] = np.asarray(policy.features)
    if w is not None:
        content["weights"] = np.asarray(w)
    found = Path(path)
    packed = io.BytesIO()
    np.savez_compressed(packed, **content)
    write_whole(found, packed.getvalue())
    return found


def _transition(path: Path, arrays: Mapping[str, Any]) -> Any:
    if "transition" in arrays:
        return arrays["transition"]
    shape = np.shape(arrays["reward"])
    if len(shape) != 2:
        raise ValueError(f"{path}: reward needs 2 axes (S, A), got shape {shape}")
    data, indices, indptr = (arrays[name] for name in SPARSE)
    size = (shape[0] * shape[1], shape[0])
    try:
        matrix = sparse.csr_array((data, indices, indptr), shape=size)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(
            f"{path}: {', '.join(SPARSE)} are no CSR matrix of shape {size} ({reason}); write "
            f"them with `mdpnewton.save_model`"
        ) from None
    return matrix


def _names(arrays: Mapping[str, Any], name: str) -> list[str] | None:
    return [str(one) for one in np.ravel(arrays[name])] if name in arrays else None


def _whole(value: float) -> Any:
    return int(value) if value.is_integer() else value
