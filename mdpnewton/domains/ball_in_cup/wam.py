r"""The Barrett WAM with seven joints: published constants and the kinematics they define.

Denavit-Hartenberg frames (Spong, Hutchinson & Vidyasagar):
$T_i = R_z(\theta_i)\,T_z(d_i)\,T_x(a_i)\,R_x(\alpha_i)$. The numbers are those of the Barrett WAM
manual D1001, table 5, and of libbarrett's `wam7w.conf`; a link's inertia is about its centre of
mass, in the axes of the frame at its far end.
"""

from typing import NamedTuple

import numpy as np

JOINTS = 7
SHOULDER = 0.346  # m above the base plate
A = np.array([0.0, 0.0, 0.045, -0.045, 0.0, 0.0, 0.0])  # m
D = np.array([0.0, 0.0, 0.55, 0.0, 0.30, 0.0, 0.0609])  # m
ALPHA = np.pi / 2 * np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 0.0])

LOWER = np.array([-2.6, -1.985, -2.8, -0.9, -4.55, -1.5707, -2.7])  # rad
UPPER = np.array([2.6, 1.985, 2.8, 3.14159, 1.25, 1.5707, 2.7])
TORQUE = np.array([150.0, 125.0, 40.0, 60.0, 5.0, 5.0, 2.0])  # Nm, at most
STIFFNESS = np.array([200.0, 300.0, 100.0, 100.0, 10.0, 10.0, 2.5])  # Nm/rad
DAMPING = np.array([7.0, 15.0, 5.0, 2.5, 0.3, 0.3, 0.05])  # Nm s/rad
START = np.array([0.0, 0.5876, 0.0, 1.36, 0.0, -0.3207, -1.57])  # the cup stands upright


class Link(NamedTuple):
    """One link: mass in kg, centre in m, inertia in kg m^2 as xx, yy, zz, xy, xz, yz."""

    mass: float
    centre: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]


LINKS = (
    Link(
        10.7677,
        (-0.00443, 0.12189, -0.00066),
        (0.13488033, 0.11328369, 0.09046330, -0.00213041, -0.00012485, 0.00068555),
    ),
    Link(
        3.8749,
        (-0.00237, 0.03106, 0.01542),
        (0.02140958, 0.01377875, 0.01558906, 0.00027172, 0.00002461, -0.00181920),
    ),
    Link(
        1.8023,
        (-0.03826, 0.20751, 0.00003),
        (0.05911077, 0.00324550, 0.05927043, -0.00249612, 0.00000738, -0.00001767),
    ),
    Link(
        2.17266212,
        (0.00553408, 0.00006822, 0.11927695),
        (0.01067491, 0.01058659, 0.00282036, 0.00004503, -0.00135557, -0.00011002),
    ),
    Link(
        0.35655692,
        (0.00005483, 0.02886286, 0.00148493),
        (0.00037112, 0.00019434, 0.00038209, -0.00000008, -0.00000003, -0.00001613),
    ),
    Link(
        0.40915886,
        (-0.00005923, -0.01686123, 0.02419052),
        (0.00054889, 0.00023846, 0.00045133, 0.00000019, -0.0000001, -0.0000443),
    ),
    Link(
        0.07548270,
        (0.00014836, 0.00007252, -0.00335185),
        (0.00003911, 0.00003877, 0.00007614, 0.00000019, 0.0, 0.0),
    ),
)


def turn(angle: float) -> np.ndarray:
    """The rotation R_x, shape (3, 3), with exact zeros at quarter turns."""
    c, s = np.round([np.cos(angle), np.sin(angle)], 15)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def inertia_matrix(link: Link) -> np.ndarray:
    """The inertia about the centre of mass, shape (3, 3), in the axes of the far frame."""
    xx, yy, zz, xy, xz, yz = link.inertia
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def mounted(index: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Centre and inertia of a link in the frame before its own, which contains its hinge.

    They are $(a, 0, d) + R c$ and $R I R^\top$ with $R = R_x(\alpha)$.
    """
    R = turn(ALPHA[index])
    centre = np.array([A[index], 0.0, D[index]]) + R @ np.array(LINKS[index].centre)
    return centre, R @ inertia_matrix(LINKS[index]) @ R.T


def frames(q: np.ndarray) -> np.ndarray:
    """The homogeneous matrices of frames 0 (the shoulder) to 7 (the tool), shape (..., 8, 4, 4)."""
    angles = np.asarray(q, dtype=float)
    found = [np.broadcast_to(np.eye(4), (*angles.shape[:-1], 4, 4)).copy()]
    found[0][..., 2, 3] = SHOULDER
    for index, (a, d, alpha) in enumerate(zip(A, D, ALPHA, strict=True)):
        step = np.zeros_like(found[0])
        c, s = np.cos(angles[..., index]), np.sin(angles[..., index])
        step[..., 0, 0], step[..., 0, 1], step[..., 1, 0], step[..., 1, 1] = c, -s, s, c
        step[..., 2, 2] = step[..., 3, 3] = 1.0
        fixed = np.eye(4)
        fixed[:3, :3], fixed[:3, 3] = turn(alpha), (a, 0.0, d)
        found.append(found[-1] @ step @ fixed)
    return np.stack(found, axis=-3)
