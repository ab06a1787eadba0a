"""A finite-state controller that acts on its own."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice
from mdpnewton.deployment.recipe import Piece, Stored, made, written
from mdpnewton.files.controllers import BLANK
from mdpnewton.files.exported import FORMATS, export_numpy, export_onnx
from mdpnewton.policies import FiniteStateController, alone_controller
from mdpnewton.policies.alone_controller import Remembering


class LoadedController:
    """A finite-state controller: it takes one observation after the other and keeps its node.

    Attributes:
        about: What was solved: `problem`, `value`, `method`, `seed`; the names of `observations`
            and `actions`; whether it is `greedy`.
    """

    def __init__(
        self, content: dict[str, Any], policy: FiniteStateController, w: PyTree, greedy: bool
    ):
        names = ("problem", "value", "method", "seed", "actions", "observations")
        self.about = {name: content[name] for name in names if name in content}
        self.about |= {"blank": self.observations[-1] == BLANK, "greedy": greedy}
        tables = policy.tables(w)._asdict()
        self._arrays = {name: np.asarray(table) for name, table in tables.items()}
        about = (list(self.observations), self.about["blank"], greedy)
        self._recipe = Piece(Remembering, (*about, *map(Stored, self._arrays)))
        self._memory: Remembering = made(self._recipe, self._arrays)

    def __repr__(self) -> str:
        nodes = self._arrays["initial"].shape[1]
        return f"LoadedController({nodes} nodes, for {self.about.get('problem', 'a problem')})"

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions, by their numbers."""
        return tuple(self.about["actions"])

    @property
    def observations(self) -> tuple[str, ...]:
        """Names of the observations, by their numbers."""
        return tuple(self.about["observations"])

    @property
    def node(self) -> int | None:
        """The node after the last action; None when an episode begins."""
        return self._memory.node

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Random seed of nodes and actions from now on.
        """
        self._memory.reset(seed)

    def act(
        self,
        observation: Any = None,
        *,
        greedy: bool | None = None,
        rng: np.random.Generator | None = None,
    ) -> int:
        """The number of an action, after which the controller is in its next node.

        Args:
            observation: Number or name of the observation that has arrived; None before the first
                one, if the problem shows none in the beginning.
            greedy: Whether to take the most probable node and action; by default both are drawn, as
                the controller was valued.
            rng: NumPy generator to draw with; by default the controller's own, which `load` or
                `reset` seeds.
        """
        return self._memory.act(observation, greedy=greedy, rng=rng)

    def export(self, folder: str | PathLike[str], *, format: str = "numpy") -> Path:
        """Write the controller in a form that needs neither this library nor JAX.

        Args:
            folder: The folder, which is created. One that holds an export already is refused.
            format: "numpy" for `policy.py`, which needs NumPy alone and has `act` and `reset` as
                they are here, with its tables beside it; "onnx" for `policy.onnx`, see
                `export_onnx`.

        Returns:
            The file policy.py or policy.onnx.
        """
        choice("export", "format", format, FORMATS)
        if format == "onnx":
            return self.export_onnx(Path(folder) / "policy.onnx")
        what = f"Controller for {self.about.get('problem', 'a problem')}"
        sources = [alone_controller]
        return export_numpy(Path(folder), what, written(self._recipe), sources, self._arrays)

    def export_onnx(self, file: str | PathLike[str]) -> Path:
        """Write the controller as an ONNX model (extra `onnx`).

        Its inputs `node` and `observation` are numbers, shape (batch,) and type int64; the node is
        -1 when an episode begins. Its outputs `action` and `next_node` are the most probable ones,
        as `act(greedy=True)` takes them; `probabilities`, shape (batch, nodes, actions), are those
        of next node and action together, for programs that draw them.

        Args:
            file: The file. One that exists already is refused.

        Returns:
            The file.
        """
        from mdpnewton.deployment.onnx import controller_model

        return export_onnx(Path(file), controller_model(self._arrays))
