"""What local convergence theory predicts for the methods at a stationary point."""

from dataclasses import dataclass

import numpy as np

from mdpnewton.analysis.spectra import ROUND_OFF, parts
from mdpnewton.threads import threads_for


@dataclass(frozen=True)
class Rate:
    """What local convergence theory predicts for a method at a stationary point.

    Attributes:
        jacobian: Jacobian of the update at step size 1, eqs. (29) and (32), Theorem 12.
        rate: Spectral radius of the Jacobian: an iteration shrinks the distance by this factor.
        largest_step: The method converges with step sizes in (0, largest_step), eqs. (30) and (33);
            None if no step size converges.
    """

    jacobian: np.ndarray
    rate: float
    largest_step: float | None


def predicted_rates(terms: dict[str, np.ndarray]) -> dict[str, Rate]:
    """Jacobians of the updates at a stationary point and their spectral radii.

    A singular term is inverted on its range, and its rates are those on that range: a redundant
    parameter stays where it is. Parameters that neither term connects are treated apart.
    """
    H = terms["hessian"]
    found: dict[str, Rate] = {}
    for name, preconditioner in (
        ("first_gauss_newton", terms["A1"] + terms["A2"]),
        ("second_gauss_newton", terms["H2"]),
        ("expectation_maximization", terms["H2"]),
    ):
        if name == "expectation_maximization" and "second_gauss_newton" in found:
            found[name] = found["second_gauss_newton"]  # the same matrix
            continue
        every = _ratios(preconditioner, H)
        if every is None:
            continue
        ratios, jacobian = every
        converges = bool((ratios.real > 0).all())
        found[name] = Rate(
            jacobian=jacobian,
            rate=float(np.abs(1 - ratios).max()),
            largest_step=float((2 * ratios.real / np.abs(ratios) ** 2).min())
            if converges
            else None,
        )
    return found


def _ratios(C: np.ndarray, H: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The eigenvalues of C^-1 H on the range of C, and 1 - C^-1 H; None if C is zero."""
    rows = list(parts(C, H))
    with threads_for(float(max(map(len, rows))) ** 3):
        eigen = [np.linalg.eigh(C[np.ix_(at, at)]) for at in rows]
        largest = max(float(np.abs(values).max(initial=0.0)) for values, _ in eigen)
        ratios, jacobian = [], np.eye(len(H))
        for at, (values, vectors) in zip(rows, eigen, strict=True):
            kept = np.abs(values) > ROUND_OFF * largest
            basis, scale = vectors[:, kept], values[kept]
            if not kept.any():
                continue
            inner = basis.T @ H[np.ix_(at, at)] @ basis
            jacobian[np.ix_(at, at)] -= basis @ (inner / scale[:, None]) @ basis.T
            if (scale > 0).all() or (scale < 0).all():  # similar to a symmetric matrix
                root = np.sqrt(np.abs(scale))
                values_here = np.sign(scale[0]) * np.linalg.eigvalsh(inner / np.outer(root, root))
            else:
                values_here = np.linalg.eigvals(inner / scale[:, None])
            ratios.append(values_here)
    return (np.concatenate(ratios), jacobian) if ratios else None
