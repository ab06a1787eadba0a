"""From a run folder, or the file in it, to something that acts."""

import json
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import PyTree

from mdpnewton.checks import flag, instance, refuse, whole
from mdpnewton.deployment.controller import LoadedController
from mdpnewton.deployment.policy import LoadedPolicy
from mdpnewton.deployment.tetris import LoadedTetris
from mdpnewton.files.controllers import load_controller
from mdpnewton.files.folder import CONTROLLER, POLICY, WEIGHTS
from mdpnewton.files.states import load_newest, load_state, previous_of
from mdpnewton.files.weights import load_weights
from mdpnewton.policies import FiniteStateController, Policy
from mdpnewton.simulators import spaces_of
from mdpnewton.training.saved import check_own, saved_policy
from mdpnewton.training.state import SPACES, parts_of

WITHOUT = (
    "was saved by a version whose policies do not act without their environment; go on with the "
    "training and save it again, or train again"
)
KEPT = ("environment", "method", "kind", "seed")  # parts of a state that a loaded policy tells


def load(
    path: str | PathLike[str],
    *,
    policy: Policy | None = None,
    greedy: bool | None = None,
    seed: int | None = None,
) -> Any:
    """Load what was trained or solved. No environment is needed, and none is made.

    Args:
        path: A run folder of `mdpnewton train`, `solve` or `tetris train`, what `Training.save`
            wrote, or the file policy.npz, controller.json or weights.json in it.
        policy: The policy that was trained, if `train` was given one: a file has its arrays and not
            its class.
        greedy: Whether it takes its most probable action or draws one; by default what the training
            chose, drawn for a controller, and the best placement for Tetris.
        seed: Random seed of actions that are drawn.

    Returns:
        A `LoadedPolicy`, a `LoadedController` or a `LoadedTetris`, whose `act` gives actions.
    """
    instance("load", "path", path, str | PathLike, "pass a run folder or the file in it")
    if greedy is not None:
        flag("load", "greedy", greedy)
    if seed is not None:
        whole("load", "seed", seed)
    file = _file(Path(path))
    if file.suffix != ".json":
        found: Any = _policy(file, policy, greedy)
    elif policy is not None:
        refuse("load", "policy", f"is for trainings, {file} is none")
    elif _is_controller(file):
        found = LoadedController(*_controller(file), bool(greedy))
    else:
        found = LoadedTetris(*load_weights(file), greedy is not False)
    found.reset(seed)
    return found


def _file(path: Path) -> Path:
    """The file that is meant: itself, or the one in the folder."""
    if path.is_dir():
        for name in (POLICY, CONTROLLER, WEIGHTS):
            if any(file.is_file() for file in (path / name, previous_of(path / name))):
                return path / name
        known = f"{POLICY}, {CONTROLLER} or {WEIGHTS}"
        raise ValueError(f"{path}: holds no {known}; name a run folder or the file in it")
    if not path.is_file():
        raise ValueError(f"{path}: no such file or folder; name a run folder or the file in it")
    return path


def _is_controller(path: Path) -> bool:
    """Whether it is a controller; weights of Tetris otherwise."""
    try:
        return "logits" in json.loads(path.read_bytes())
    except (ValueError, TypeError):
        return False  # reading the weights says what is wrong


def _controller(path: Path) -> tuple[dict[str, Any], FiniteStateController, PyTree]:
    policy, w, content = load_controller(path)
    return content, policy, w


def _policy(path: Path, own: Policy | None, greedy: bool | None) -> LoadedPolicy:
    """The policy of a training."""
    state = load_newest(path) or load_state(path)
    try:
        parts = parts_of("load", state)
        check_own("load", parts, own)
        if parts[SPACES] is None:
            raise ValueError(WITHOUT)
        spaces = parts[SPACES]
        saved = saved_policy("load", parts, spaces_of("load", spaces), own)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: {str(error).rstrip('.')}") from None
    chosen = saved.greedy if greedy is None else greedy
    about = {name: parts[name] for name in KEPT}
    about |= {name: each for name, each in spaces.items() if name != "bounds"}
    return LoadedPolicy({**about, "greedy": chosen}, spaces["bounds"], saved.policy, saved.played)
