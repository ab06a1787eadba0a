"""Saved trainings: arrays in .npz and their description in JSON, never pickle."""

import hashlib
import io
import json
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.navigation import Navigation
from mdpnewton.environments import IDS
from mdpnewton.evaluators.actor_critic import Visited
from mdpnewton.files.folder import write_whole
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.training.presets import Preset
from mdpnewton.training.train import Training, blank, simulator_of
from mdpnewton.version import __version__

FORMAT = 1  # of the file; raised when an old file can no longer be read
DOMAINS = {"cartpole": CartPole, "navigation": Navigation}


def simulator_named(name: str) -> Simulator:
    """One of our domains, or a Gymnasium environment."""
    return simulator_of(DOMAINS[name]() if name in DOMAINS else name)


def environment_id(name: str) -> str:
    """The Gymnasium id of an environment: what renders it."""
    return IDS.get(name, name)


def save_training(path: Path, training: Training, environment: str, method: str) -> None:
    """Write all that is needed to play the policy and to go on with its training."""
    evaluator = training.evaluator
    parts = {
        "features": training.features,
        "policy": training.policy,
        "w": training.w,
        "critic": evaluator.critic,
        **{f"recent{n}": w for n, (_, w) in enumerate(training.recent)},
        **{f"batch{n}": batch for n, batch in enumerate(evaluator.memory.batches)},
    }
    arrays = {
        f"{name}/{n}": np.asarray(leaf)
        for name, part in parts.items()
        for n, leaf in enumerate(_arrays(part))
    }
    about = {
        "format": FORMAT,
        "version": __version__,
        "environment": environment,
        "method": method,
        "kind": training.kind,
        "seed": training.seed,
        "preset": asdict(training.preset),
        "iteration": training.iteration,
        "transitions": evaluator.memory.transitions,
        "batches": len(evaluator.memory.batches),
        "recent": [bound for bound, _ in training.recent],
        "here": evaluator.here,
        "returned_to": evaluator.returned_to,
        "digest": _digest(arrays),
    }
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, about=text, **arrays)  # type: ignore[arg-type]
    write_whole(path, content.getvalue())


def load_training(path: Path) -> tuple[Training, dict[str, Any]]:
    """The training that was saved, and its description.

    Raises:
        ValueError: The file is missing, damaged, or of another format.
    """
    about, arrays = _read(path)
    simulator = simulator_named(about["environment"])
    training = blank(simulator, about["kind"], about["seed"], Preset(**about["preset"]))
    evaluator = training.evaluator
    sample = Trajectories(*[jnp.zeros(0)] * 9)
    try:
        training.features = _filled(training.features, arrays, "features")
        training.policy = _filled(training.policy, arrays, "policy")
        training.w = _filled(training.w, arrays, "w")
        training.recent = [
            (bound, _filled(training.w, arrays, f"recent{n}"))
            for n, bound in enumerate(about["recent"])
        ]
        evaluator.critic = _filled(evaluator.critic, arrays, "critic")
        evaluator.memory.batches = [
            _filled(sample, arrays, f"batch{n}", shapes=False) for n in range(about["batches"])
        ]
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: does not fit the environment {about['environment']!r} as it is now "
            f"({error}); train again"
        ) from None
    evaluator.memory.transitions = about["transitions"]
    evaluator.here = tuple(about["here"])
    evaluator.returned_to = Visited(*about["returned_to"])
    training.iteration = about["iteration"]
    return training, about


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; name the folder of `mdpnewton train --out`")
    try:
        content = io.BytesIO(path.read_bytes())  # NumPy leaves a damaged file open
        with np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(bytes(arrays.pop("about")).decode())
        whole = about["digest"] == _digest(arrays)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, UnicodeDecodeError):
        raise ValueError(f"{path}: is damaged or no saved policy; train again") from None
    if about["format"] != FORMAT:
        raise ValueError(
            f"{path}: has format {about['format']}, written by mdpnewton {about['version']}; this "
            f"is mdpnewton {__version__}, which reads format {FORMAT}: use that version, or train "
            f"again"
        )
    if not whole:
        raise ValueError(f"{path}: is damaged (its digest differs); train again")
    return about, arrays


def _arrays(part: Any) -> list[Any]:
    return jax.tree.leaves(eqx.filter(part, eqx.is_array_like))


def _filled(part: Any, arrays: dict[str, np.ndarray], name: str, *, shapes: bool = True) -> Any:
    """The same structure with the saved arrays in it."""
    changing, rest = eqx.partition(part, eqx.is_array_like)
    leaves, structure = jax.tree.flatten(changing)
    saved = [arrays[f"{name}/{n}"] for n in range(len(leaves))]
    for old, new in zip(leaves, saved, strict=True):
        if shapes and np.shape(old) != new.shape:
            raise ValueError(f"{name} has shape {new.shape} where {np.shape(old)} is needed")
    typed = [
        new.item() if isinstance(old, float | int | bool) else jnp.asarray(new)
        for old, new in zip(leaves, saved, strict=True)
    ]
    return eqx.combine(jax.tree.unflatten(structure, typed), rest)


def _digest(arrays: dict[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}{array.dtype}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
