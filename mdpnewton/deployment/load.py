"""From a run folder, or the file in it, to something that acts."""

from os import PathLike
from pathlib import Path

from mdpnewton.checks import flag, instance, whole
from mdpnewton.deployment.policy import LoadedPolicy
from mdpnewton.files.folder import POLICY
from mdpnewton.files.states import load_newest, load_state, previous_of
from mdpnewton.policies import Policy
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
) -> LoadedPolicy:
    """Load what was trained. No environment is needed, and none is made.

    Args:
        path: A run folder of `mdpnewton train`, what `Training.save` wrote, or the file policy.npz
            in it.
        policy: The policy that was trained, if `train` was given one: a file has its arrays and not
            its class.
        greedy: Whether it takes its most probable action or draws one; by default what the training
            chose.
        seed: Random seed of actions that are drawn.

    Returns:
        The policy, whose `act(observation)` returns an action that the environment takes.
    """
    instance("load", "path", path, str | PathLike, "pass a run folder or the file in it")
    if greedy is not None:
        flag("load", "greedy", greedy)
    if seed is not None:
        whole("load", "seed", seed)
    found = _policy(_file(Path(path)), policy, greedy)
    found.reset(seed)
    return found


def _file(path: Path) -> Path:
    """The file that is meant: itself, or the one in the folder."""
    if path.is_dir():
        for file in (path / POLICY, previous_of(path / POLICY)):
            if file.is_file():
                return path / POLICY
        raise ValueError(f"{path}: holds no {POLICY}; name a folder of `mdpnewton train`")
    if not path.is_file():
        raise ValueError(f"{path}: no such file or folder; name a run folder or the file in it")
    return path


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
