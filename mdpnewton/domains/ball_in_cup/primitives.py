r"""Dynamic motor primitives: smooth movements that are linear in their weights.

Each joint has one, and all share the phase z (Ijspeert et al. 2002; Schaal et al. 2007):

    tau^2 ydd = alpha (beta (g - y) - tau yd) + f(z),    tau zd = -a_z z,
    f = z sum_i psi_i w_i / sum_i psi_i,                 psi_i = exp(-h_i (z - c_i)^2 / 2).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

LONGEST = 0.001  # s, the longest step of the integration
KEPT = 8  # tables of basis functions to keep


class Movement(NamedTuple):
    """Angles, velocities and accelerations, each of shape (..., times, joints)."""

    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray


@dataclass(frozen=True)
class Primitives:
    """The primitives of several joints; every movement is one matrix product.

    Paper: the forcing term is scaled by g - y0, as usual. Here: it is not, because start and
    goal are the same. Paper: says nothing about a_z. Here: 2, because the usual alpha / 3 leads to
    weights of 1e4 and to exploration that changes only the early movement.

    Attributes:
        start: Angles at rest at the start, which are also the goal; shape (joints,).
        bases: Number of basis functions per joint.
        alpha: Constant alpha of the spring.
        beta: Constant beta of the spring, which is critically damped by default.
        tau: Approximate length of the movement in seconds.
        phase: Decay rate a_z of the phase.
        width: Width of a basis function, as a multiple of the distance to the next one.
    """

    start: np.ndarray
    bases: int = 10
    alpha: float = 25.0
    beta: float = 6.25
    tau: float = 1.0
    phase: float = 2.0
    width: float = 0.55

    def __post_init__(self) -> None:
        start = np.array(self.start, dtype=float)
        if start.ndim != 1 or not start.size or not np.isfinite(start).all():
            raise ValueError(
                f"`Primitives(start=...)` needs finite angles of shape (joints,), got "
                f"{start.shape}."
            )
        if self.bases < 2:
            raise ValueError(f"`Primitives(bases=...)` needs at least 2, got {self.bases}.")
        for name in ("alpha", "beta", "tau", "phase", "width"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"`Primitives({name}=...)` must be positive, got {value}.")
        object.__setattr__(self, "start", start)

    @property
    def size(self) -> int:
        """Number of weights: joints times bases."""
        return self.start.size * self.bases

    def forcing(self, times: ArrayLike) -> Float[np.ndarray, "times bases"]:
        """The forcing terms of weights one, z psi_i / sum psi."""
        z = np.exp(-self.phase * np.asarray(times, dtype=float) / self.tau)
        c = np.exp(-self.phase * np.linspace(0, 1, self.bases))
        apart = np.diff(c)
        h = 1 / (self.width * np.append(apart, apart[-1])) ** 2
        exponents = -h * (z[..., None] - c) ** 2 / 2
        # Late phases are far from every centre: subtract the largest exponent, so that the sum
        # does not vanish.
        psi = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
        return z[..., None] * psi / psi.sum(axis=-1, keepdims=True)

    def basis(self, dt: float, steps: int) -> Movement:
        """The movement at 0, dt, ... of each basis with weight one; each of shape (steps, bases).

        It is integrated by Runge-Kutta steps of fourth order, of at most a millisecond.
        """
        constants = (self.bases, self.alpha, self.beta, self.tau, self.phase, self.width)
        return _basis(constants, dt, steps)

    def movement(self, weights: ArrayLike, dt: float, steps: int) -> Movement:
        """The movements of weights of shape (..., joints, bases) or (..., joints * bases)."""
        w = np.swapaxes(self.shaped(weights), -1, -2)
        # One product per movement, so that its digits don't depend on the rest of the batch.
        q, qd, qdd = (np.matmul(table, w) for table in self.basis(dt, steps))
        return Movement(self.start + q, qd, qdd)

    def shaped(self, weights: ArrayLike) -> np.ndarray:
        """The weights with an axis for joints and one for bases."""
        w = np.asarray(weights, dtype=float)
        joints = self.start.size
        if w.shape[-2:] == (joints, self.bases):
            return w
        if w.shape[-1:] != (self.size,):
            raise ValueError(
                f"`weights` of {joints} joints with {self.bases} bases need the last axes "
                f"({joints}, {self.bases}) or ({self.size},), got shape {w.shape}."
            )
        return w.reshape(*w.shape[:-1], joints, self.bases)

    def imitate(self, angles: ArrayLike, dt: float) -> Float[np.ndarray, "joints bases"]:
        """The weights whose movement is nearest to the given angles, by least squares.

        The fit is over the whole movement at once, not over its forcing term piece by piece, which
        follows poorly with few bases.

        Args:
            angles: Angles at 0, dt, ..., shape (times, joints). They should begin at `start`.
            dt: Seconds between two rows of `angles`.
        """
        wanted = np.asarray(angles, dtype=float)
        if wanted.ndim != 2 or wanted.shape[1] != self.start.size or len(wanted) < self.bases:
            raise ValueError(
                f"`imitate(angles=...)` needs shape (times, {self.start.size}) with at least "
                f"{self.bases} times, got {wanted.shape}."
            )
        if not np.isfinite(wanted).all():
            raise ValueError("`imitate(angles=...)` must be finite.")
        table = self.basis(dt, len(wanted)).q
        return np.linalg.lstsq(table, wanted - self.start, rcond=None)[0].T

    def _integrated(self, dt: float, steps: int) -> Movement:
        if not dt > 0 or steps < 1:
            raise ValueError(f"`dt` must be positive and `steps` at least 1, got {dt}, {steps}.")
        substeps = int(np.ceil(dt / LONGEST - 1e-9))
        h = dt / substeps
        halves = self.forcing(h / 2 * np.arange(2 * substeps * (steps - 1) + 1))
        y, yd = np.zeros(self.bases), np.zeros(self.bases)
        q, qd, qdd = (np.empty((steps, self.bases)) for _ in range(3))
        for step in range(steps):
            at = 2 * substeps * step
            q[step], qd[step], qdd[step] = y, yd, self._bend(y, yd, halves[at])
            if step == steps - 1:
                break
            for first in range(at, at + 2 * substeps, 2):
                f0, f1, f2 = halves[first : first + 3]
                k1, l1 = yd, self._bend(y, yd, f0)
                k2, l2 = yd + h / 2 * l1, self._bend(y + h / 2 * k1, yd + h / 2 * l1, f1)
                k3, l3 = yd + h / 2 * l2, self._bend(y + h / 2 * k2, yd + h / 2 * l2, f1)
                k4, l4 = yd + h * l3, self._bend(y + h * k3, yd + h * l3, f2)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
                yd = yd + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        return Movement(q, qd, qdd)

    def _bend(self, y: np.ndarray, yd: np.ndarray, f: np.ndarray) -> np.ndarray:
        return (self.alpha * (-self.beta * y - self.tau * yd) + f) / self.tau**2


@lru_cache(maxsize=KEPT)
def _basis(constants: tuple[float, ...], dt: float, steps: int) -> Movement:
    """The table of `basis`, which is the same wherever the movement starts."""
    bases, *others = constants
    return Primitives(np.zeros(1), int(bases), *others)._integrated(dt, steps)
