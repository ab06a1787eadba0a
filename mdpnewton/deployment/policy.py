"""A trained policy that acts without its environment."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, refuse
from mdpnewton.deployment.choosing import own_choosing
from mdpnewton.deployment.recipe import acting, choosing, made, written
from mdpnewton.files.exported import FORMATS, export_numpy, export_onnx
from mdpnewton.policies import Policy, alone
from mdpnewton.policies.alone import Acting
from mdpnewton.policies.arrays import Plainly, plainly


class LoadedPolicy:
    """A trained policy: it takes raw observations and returns actions that its environment takes.

    It acts in NumPy and has no JAX in its calls, unless it is a policy of your own that NumPy does
    not know.

    Attributes:
        about: What was trained: `environment`, `method`, `kind`, `seed`, the spaces of
            `observation` and `action`, `deadline`, `horizon`, and whether it is `greedy`.
        policy: The policy, whose actions are in units of its box.
        w: Its parameters.
    """

    def __init__(
        self, about: dict[str, Any], bounds: dict[str, np.ndarray], policy: Policy, w: PyTree
    ):
        self.about, self.policy, self.w = about, policy, w
        self._bounds, plain = bounds, plainly(policy, w)
        if plain is None:
            self._acting: Acting = made(acting(about, own_choosing(policy, w)), bounds)
        else:
            self._acting = made(acting(about, choosing(*plain)), {**plain.arrays, **bounds})

    def __repr__(self) -> str:
        trained = self.about["environment"] or "a simulator"
        return f"LoadedPolicy({self.about['kind']} policy, trained on {trained})"

    @property
    def time(self) -> int:
        """Number of actions since the episode began."""
        return self._acting.time

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Random seed of the actions from now on, if they are drawn.
        """
        self._acting.reset(seed)

    def act(
        self,
        observation: Any,
        *,
        time: Any = None,
        greedy: bool | None = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """An action that the environment takes, or one for each observation of a batch.

        Actions are scaled to the box and clipped to it, rounded if it is one of integers; numbers
        of `Discrete` spaces begin at their `start`. They have the type and shape of their space.

        Args:
            observation: An observation as the environment gives it: an array, a dictionary or a
                tuple. In a batch, every part has one more axis, which comes first.
            time: Number of steps since the episode began, for a policy that was told the time
                (`about["deadline"]`); one number per row of a batch. By default the policy counts
                its own actions since `reset`, which is for single observations. Others ignore it.
            greedy: Whether to take the most probable action or to draw one; by default what the
                training chose.
            rng: NumPy generator to draw the action with; by default the policy's own, which `load`
                or `reset` seeds.
        """
        return self._acting.act(observation, time=time, greedy=greedy, rng=rng)

    def export(self, folder: str | PathLike[str], *, format: str = "numpy") -> Path:
        """Write the policy in a form that needs neither this library nor JAX.

        Args:
            folder: The folder, which is created. One that holds an export already is refused.
            format: "numpy" for `policy.py`, which needs NumPy alone and has `act` and `reset` as
                they are here, with its arrays in `weights.npz`; "onnx" for `policy.onnx`, see
                `export_onnx`.

        Returns:
            The file to import or to load: `policy.py` or `policy.onnx`.
        """
        choice("export", "format", format, FORMATS)
        if format == "onnx":
            return self.export_onnx(Path(folder) / "policy.onnx")
        plain, about = self._plain(), self.about
        where = about["environment"] or "a simulator"
        what = f"Policy ({about['kind']}) trained on {where} by {about['method']}"
        policy = written(acting(about, choosing(*plain)))
        arrays = {**plain.arrays, **self._bounds}
        return export_numpy(Path(folder), what, policy, [alone], arrays)

    def export_onnx(self, file: str | PathLike[str]) -> Path:
        """Write the most probable actions as an ONNX model (extra `onnx`).

        Its input `observation` has type double and shape (batch, n): flattened observations, and
        last the time divided by the deadline if the policy was told the time. Its output `action`
        has one row per observation, as `act` gives it.

        Args:
            file: The file. One that exists already is refused.

        Returns:
            The file.
        """
        from mdpnewton.deployment.onnx import onnx_model

        plain = self._plain()
        content = onnx_model({**self.about, **plain.about}, {**plain.arrays, **self._bounds})
        return export_onnx(Path(file), content)

    def _plain(self) -> Plainly:
        found = plainly(self.policy, self.w)
        if found is None:
            kind = type(self.policy).__name__
            rule = "are policies of this library, linear in known features or networks of `mlp`"
            refuse("export", "policy", f"{rule}, got {kind}; act with what `load` returns")
        return found
