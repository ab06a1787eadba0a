"""Finite-state controllers saved as JSON that people can read."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.files.folder import to_json, write_whole
from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.policies import FiniteStateController
from mdpnewton.version import __version__

FORMAT = 1
NEVER = 1e-12  # smaller probabilities are written as 0; the logits keep them
BLANK = "(none)"  # stands for the missing observation before the first action


def observation_labels(pomdp: FinitePOMDP, policy: FiniteStateController) -> list[str]:
    """The names of all observations that the controller knows, including the blank one."""
    names = list(pomdp.labels("observations"))
    return names + [BLANK] * (policy.n_observations - len(names))


def save_controller(
    path: Path, pomdp: FinitePOMDP, policy: FiniteStateController, w: PyTree, about: dict[str, Any]
) -> None:
    """Write a controller: its tables as probabilities, and as logits to continue from."""
    tables = policy.tables(w)
    content = {
        "format": FORMAT,
        "version": __version__,
        **about,
        "nodes": policy.nodes,
        "actions": list(pomdp.labels("actions")),
        "observations": observation_labels(pomdp, policy),
        "probabilities": {
            "initial (observation, node)": _readable(tables.initial),
            "transition (node, observation, next node)": _readable(tables.transition),
            "action (node, observation, action)": _readable(tables.action),
        },
        "logits": {name: np.asarray(leaf).tolist() for name, leaf in w.items()},
    }
    write_whole(path, to_json(content).encode())


def _readable(table: Any) -> Any:
    """Probabilities as lists; those below 1e-12 are 0, as nobody will ever see them happen."""
    probabilities = np.asarray(table)
    return np.where(probabilities < NEVER, 0.0, probabilities).tolist()


def load_controller(path: Path) -> tuple[FiniteStateController, PyTree, dict[str, Any]]:
    """The controller that was saved, its parameters and its description.

    Raises:
        ValueError: The file is missing, damaged, or has another format.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; name the controller.json of `mdpnewton solve`")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        form = content["format"]
        policy = FiniteStateController(
            content["nodes"], len(content["observations"]), len(content["actions"])
        )
        w = {name: jnp.asarray(content["logits"][name], float) for name in content["logits"]}
        expected = policy.initial_parameters()
        fits = {name: leaf.shape for name, leaf in w.items()} == {
            name: leaf.shape for name, leaf in expected.items()
        }
        finite = all(bool(jnp.isfinite(leaf).all()) for leaf in w.values())
    except (KeyError, TypeError, ValueError, UnicodeDecodeError):
        raise ValueError(f"{path}: is damaged or no saved controller; solve again") from None
    if form != FORMAT:
        raise ValueError(f"{path}: has format {form}, this version reads {FORMAT}; solve again")
    if not (fits and finite):
        raise ValueError(f"{path}: its tables don't fit its nodes and names; solve again")
    return policy, w, content
