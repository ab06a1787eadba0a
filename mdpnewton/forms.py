"""The table of the paper's matrices, each a row of the one function in `curvature`."""

from typing import NamedTuple


class Form(NamedTuple):
    """Which weights, and how much of each second-order term, make a matrix."""

    weights: str
    hessian: float = 1.0
    outer: float = 0.0
    output: float = 0.0


FORMS = {
    "H1": Form("value", 0.0, 1.0),  # eq. (18)
    "H2": Form("value", 1.0, 0.0),  # eq. (19); minus it preconditions eq. (28)
    "A1": Form("advantage", 0.0, 1.0),  # Theorem 4
    "A2": Form("advantage", 1.0, 0.0),  # Theorem 4; zero for constant curvature, Lemma 3
    "A1+A2": Form("advantage", 1.0, 1.0),  # minus it preconditions eq. (27)
    "V1": Form("baseline", 0.0, 1.0),  # eq. (45)
    "V2": Form("baseline", 1.0, 0.0),  # eq. (45); minus V1, Lemma 2
    "fisher": Form("occupancy", -1.0, 0.0),  # eq. (13)
    "fisher_score": Form("occupancy", 0.0, 1.0),  # eq. (14)
    # Value-weighted generalised Gauss-Newton: V2 with the expectation over actions taken
    "generalized": Form("baseline", 0.0, 0.0, 1.0),
    "generalized_fisher": Form("occupancy", 0.0, 0.0, -1.0),  # eq. (13), the same way
}
