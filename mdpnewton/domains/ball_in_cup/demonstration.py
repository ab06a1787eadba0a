"""The recorded demonstration, and imperfect copies of it to start from."""

import json
from dataclasses import dataclass
from importlib import resources

import numpy as np
from jaxtyping import Float

from mdpnewton.domains.ball_in_cup.primitives import Primitives

BUMPED = (0, 2)  # joints 1 and 3, which swing the cup sideways
SCALE, BUMP = 0.75, 0.05  # start of the experiment: few of its samples reach the plane


@dataclass(frozen=True)
class Demonstration:
    """A movement as it was recorded.

    Attributes:
        dt: Seconds between two rows of `angles`.
        angles: Angles of the seven joints, shape (times, 7). The first row is at rest.
    """

    dt: float
    angles: Float[np.ndarray, "times 7"]

    def imperfect(self, scale: float = SCALE, bump: float = BUMP) -> "Demonstration":
        """The movement made smaller, with a sideways swing of one second.

        Args:
            scale: Factor that multiplies all deviations from the first row.
            bump: Height in rad of the squared sine that is added to joints 1 and 3.
        """
        first = self.angles[0]
        angles = first + scale * (self.angles - first)
        t = np.minimum(self.dt * np.arange(len(angles)), 1.0)
        angles[:, BUMPED] += bump * np.sin(np.pi * t[:, None]) ** 2
        return Demonstration(self.dt, angles)

    def weights(self, primitives: Primitives) -> Float[np.ndarray, " weights"]:
        """The weights with which the primitives imitate the movement, as a flat array."""
        return primitives.imitate(self.angles, self.dt).ravel()


def load_demonstration() -> Demonstration:
    """The demonstration that comes with the library, made by `tools/make_demonstration.py`."""
    text = resources.files(__package__).joinpath("demonstration.json").read_text("utf-8")
    found = json.loads(text)
    return Demonstration(float(found["dt"]), np.array(found["angles"], dtype=float))
