r"""The rigid planar arm of N links in gravity, Section 6.4, and the torque that makes it linear.

$M(q)\ddot q + C(q, \dot q)\dot q + g(q) = \tau$. Joint i turns link i relative to link i-1; the
first angle is from the horizontal, and gravity pulls down the second axis. A state is
$(q, \dot q)$ in one array.

The formulas are short in the absolute angles $\phi = Sq$, where S is the matrix of running sums.
They are computed there and mapped back: $M = S^\top M_\phi S$, $C = S^\top C_\phi S$,
$g = S^\top g_\phi$.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Scalar
from numpy.typing import ArrayLike

from mdpnewton.checks import flag, instance, number, refuse, whole
from mdpnewton.models.checks import check_positive, finite_array

GRAVITY = 9.81  # m/s^2

Command = Callable[[Any, Float[Array, " 2n"]], Float[Array, " n"]]


class Arm(eqx.Module):
    """An arm given by its links, counted from the base.

    Attributes:
        lengths: Distances from joint to joint, shape (N,), positive.
        masses: Masses of the links, shape (N,), positive.
        centres: Distances from a link's joint to its centre of mass along the link, shape (N,).
        inertias: Moments of inertia about the centres of mass, shape (N,); 0 is a point mass.
        gravity: Acceleration of gravity; 0 is an arm on a table.
    """

    lengths: Float[Array, " n"]
    masses: Float[Array, " n"]
    centres: Float[Array, " n"]
    inertias: Float[Array, " n"]
    gravity: Scalar

    def __init__(
        self,
        lengths: ArrayLike,
        masses: ArrayLike,
        centres: ArrayLike,
        inertias: ArrayLike,
        gravity: float = GRAVITY,
    ):
        given = {"lengths": lengths, "masses": masses, "centres": centres, "inertias": inertias}
        arrays = _checked_links(given)
        self.lengths, self.masses, self.centres, self.inertias = map(jnp.asarray, arrays.values())
        self.gravity = jnp.asarray(number("Arm", "gravity", gravity))

    @classmethod
    def uniform(
        cls, links: int, length: float = 1.0, mass: float = 1.0, gravity: float = GRAVITY
    ) -> "Arm":
        """An arm of equal uniform rods: the centre is in the middle, the inertia is m l^2 / 12."""
        whole("Arm.uniform", "links", links, 1)
        number("Arm.uniform", "length", length, above=0)
        number("Arm.uniform", "mass", mass, above=0)
        one = np.ones(links)
        return cls(length * one, mass * one, length / 2 * one, mass * length**2 / 12 * one, gravity)

    @property
    def links(self) -> int:
        """Number of links, N."""
        return self.lengths.shape[0]

    def joints(self, q: Float[Array, " n"]) -> Float[Array, "n+1 2"]:
        """Positions of the joints, from the base at the origin to the end effector."""
        ends = jnp.cumsum(self.lengths[:, None] * _directions(q), axis=0)
        return jnp.concatenate([jnp.zeros((1, 2)), ends])

    def centres_of_mass(self, q: Float[Array, " n"]) -> Float[Array, "n 2"]:
        """Positions of the links' centres of mass."""
        return self._reach @ _directions(q)

    def mass_matrix(self, q: Float[Array, " n"]) -> Float[Array, "n n"]:
        r"""The mass matrix M, which is symmetric positive definite.

        $(M_\phi)_{jk} = W_{jk}\cos(\phi_j - \phi_k)$, plus link j's inertia if j = k, with
        $W = R^\top \mathrm{diag}(m) R$. $R_{ij}$ is the distance by which link j carries the i-th
        centre of mass.
        """
        absolute = self._coupling * jnp.cos(_differences(q)) + jnp.diag(self.inertias)
        return self._sums.T @ absolute @ self._sums

    def coriolis(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Float[Array, "n n"]:
        r"""The matrix C from Christoffel symbols, for which $\dot M - 2C$ is skew-symmetric.

        $(C_\phi)_{jk} = W_{jk}\sin(\phi_j - \phi_k)\dot\phi_k$.
        """
        absolute = self._coupling * jnp.sin(_differences(q)) * jnp.cumsum(qd)
        return self._sums.T @ absolute @ self._sums

    def gravity_torque(self, q: Float[Array, " n"]) -> Float[Array, " n"]:
        """The gradient of the potential energy: the torque that holds the arm still at q."""
        weights = self.gravity * self.masses @ self._reach
        return self._sums.T @ (weights * jnp.cos(jnp.cumsum(q)))

    def kinetic_energy(self, q: Float[Array, " n"], qd: Float[Array, " n"]) -> Scalar:
        r"""The kinetic energy, $\frac12 \dot q^\top M \dot q$."""
        return 0.5 * qd @ self.mass_matrix(q) @ qd

    def potential_energy(self, q: Float[Array, " n"]) -> Scalar:
        """The potential energy, which is zero when all links are horizontal."""
        return self.gravity * self.masses @ self.centres_of_mass(q)[:, 1]

    def forward_dynamics(
        self, q: Float[Array, " n"], qd: Float[Array, " n"], torque: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        r"""The acceleration, $M^{-1}(\tau - C\dot q - g)$."""
        force = torque - self.coriolis(q, qd) @ qd - self.gravity_torque(q)
        return jax.scipy.linalg.solve(self.mass_matrix(q), force, assume_a="pos")

    def inverse_dynamics(
        self, q: Float[Array, " n"], qd: Float[Array, " n"], qdd: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        r"""The torque $M\ddot q + C\dot q + g$ that gives this acceleration.

        Used as the control, with the acceleration as the action, it is the feedback linearisation
        of Section 6.4.
        """
        return self.mass_matrix(q) @ qdd + self.coriolis(q, qd) @ qd + self.gravity_torque(q)

    @property
    def _sums(self) -> Float[Array, "n n"]:
        return jnp.tril(jnp.ones((self.links, self.links)))

    @property
    def _reach(self) -> Float[Array, "n n"]:
        return jnp.tril(jnp.tile(self.lengths, (self.links, 1)), -1) + jnp.diag(self.centres)

    @property
    def _coupling(self) -> Float[Array, "n n"]:
        return self._reach.T @ (self.masses[:, None] * self._reach)


def advance(
    arm: Arm,
    state: Float[Array, " 2n"],
    command: Float[Array, " n"],
    dt: float | Scalar,
    substeps: int = 10,
    linearise: bool = True,
) -> Float[Array, " 2n"]:
    """The state of the nonlinear arm after dt, by Runge-Kutta steps of fourth order.

    Args:
        arm: The arm.
        state: Angles and velocities.
        command: Command that is held for the whole of dt: the acceleration if `linearise`, else
            the torque.
        dt: Length of the time step in seconds.
        substeps: Number of Runge-Kutta steps.
        linearise: Whether the torque comes from feedback linearisation, computed again at every
            stage. The arm then follows the linear model q' = q + dt qd + dt^2/2 v,
            qd' = qd + dt v to round-off.
    """

    def slope(here: Float[Array, " 2n"]) -> Float[Array, " 2n"]:
        q, qd = jnp.split(here, 2)
        torque = arm.inverse_dynamics(q, qd, command) if linearise else command
        return jnp.concatenate([qd, arm.forward_dynamics(q, qd, torque)])

    h = dt / substeps
    reaches, weights = h * jnp.array([0, 0.5, 0.5, 1]), h / 6 * jnp.array([1.0, 2, 2, 1])

    def substep(here: Float[Array, " 2n"], _: None) -> tuple[Float[Array, " 2n"], None]:
        def stage(sums: tuple[Array, Array], numbers: tuple[Array, Array]) -> Any:
            (last, after), (reach, weight) = sums, numbers
            new = slope(here + reach * last)
            return (new, after + weight * new), None

        # a loop, because four slopes take long to compile
        start = (jnp.zeros_like(here), here)
        return jax.lax.scan(stage, start, (reaches, weights))[0][1], None

    return jax.lax.scan(substep, state, None, length=substeps)[0]


def simulate(
    arm: Arm,
    command: Command,
    q0: ArrayLike,
    qd0: ArrayLike,
    dt: float,
    steps: int,
    substeps: int = 10,
    linearise: bool = True,
) -> Float[Array, "steps+1 2n"]:
    """The states of the nonlinear arm at the times 0, dt, 2 dt, ...; the first is the start.

    Args:
        arm: The arm.
        command: Function from the number of the step and the state to the command that is held
            until the next step; see `advance`. It may be an Equinox module whose arrays differ
            from run to run.
        q0: Angles at the start, shape (N,).
        qd0: Velocities at the start, shape (N,).
        dt: Seconds from one command to the next.
        steps: Number of commands.
        substeps: Number of Runge-Kutta steps per command.
        linearise: Whether commands are accelerations; otherwise they are torques.
    """
    instance("simulate", "arm", arm, Arm, "pass `Arm.uniform(links)`")
    for name, values in (("q0", q0), ("qd0", qd0)):
        if np.shape(values) != (arm.links,):  # the entries may be traced
            refuse("simulate", name, f"needs shape ({arm.links},), got {np.shape(values)}")
    number("simulate", "dt", dt, above=0)
    whole("simulate", "steps", steps, 1)
    whole("simulate", "substeps", substeps, 1)
    flag("simulate", "linearise", linearise)
    start = jnp.concatenate([jnp.asarray(q0, dtype=float), jnp.asarray(qd0, dtype=float)])
    wanted = eqx.filter_eval_shape(command, jnp.asarray(0), start).shape
    if wanted != (arm.links,):
        raise ValueError(f"`simulate(command=...)` must return shape ({arm.links},), got {wanted}.")
    return _simulate(arm, command, start, jnp.asarray(float(dt)), steps, substeps, linearise)


@eqx.filter_jit
def _simulate(
    arm: Arm,
    command: Command,
    start: Float[Array, " 2n"],
    dt: Scalar,
    steps: int,
    substeps: int,
    linearise: bool,
) -> Float[Array, "steps+1 2n"]:
    def step(state: Array, t: Array) -> tuple[Array, Array]:
        after = advance(arm, state, command(t, state), dt, substeps, linearise)
        return after, after

    return jnp.concatenate([start[None], jax.lax.scan(step, start, jnp.arange(steps))[1]])


def _directions(q: Float[Array, " n"]) -> Float[Array, "n 2"]:
    """The unit vectors along the links."""
    angles = jnp.cumsum(q)
    return jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=1)


def _differences(q: Float[Array, " n"]) -> Float[Array, "n n"]:
    """Differences of the links' absolute angles, row minus column."""
    angles = jnp.cumsum(q)
    return angles[:, None] - angles[None, :]


def _checked_links(given: dict[str, ArrayLike]) -> dict[str, np.ndarray]:
    """The arrays of an arm that can be, one number per link in each."""
    lengths = finite_array("Arm", "lengths", given["lengths"], 1, letters="(N,)")
    fits = "like `lengths`"
    arrays = {
        name: finite_array("Arm", name, values, 1, shape=lengths.shape, fits=fits)
        for name, values in given.items()
    }
    for name in ("lengths", "masses"):
        check_positive("Arm", name, arrays[name])
    if not (arrays["inertias"] >= 0).all():
        refuse("Arm", "inertias", f"must not be negative, got {arrays['inertias'].min():.6g}")
    # A link's inertia about its own joint; M is singular at some q if it is zero.
    if not (arrays["inertias"] + arrays["masses"] * arrays["centres"] ** 2 > 0).all():
        refuse("Arm", "inertias", "must be above 0 for a link whose centre is its joint")
    return arrays
