"""A finite-state controller that acts on its own."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.files.controllers import BLANK
from mdpnewton.files.exported import export_controller
from mdpnewton.policies import FiniteStateController
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
        self._memory = Remembering(self.about, self._arrays)

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

    def export(self, folder: str | PathLike[str]) -> Path:
        """Write the controller as `policy.py`, which needs NumPy alone, and its tables beside it.

        Args:
            folder: The folder, which is created. One that holds an export already is refused.

        Returns:
            The file policy.py, which has `act` and `reset` as they are here.
        """
        return export_controller(Path(folder), self.about, self._arrays)
