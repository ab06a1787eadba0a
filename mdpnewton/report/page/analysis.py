"""The terms of a policy Hessian in colours, and their spectra."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    heat,
    listed,
    mapping,
    numbers,
    real,
    section,
    spoken,
    table,
    text,
)

LARGEST = 150  # parameters of a matrix that is drawn
ROUND_OFF = 1e-12  # of the largest entry, below which an eigenvalue counts as zero
# Terms that share a unit, and so a scale; a Fisher matrix has its own.
TERMS = {
    "hessian": "Hessian of the objective",
    "H1": "H1",
    "H2": "H2, second Gauss-Newton",
    "H12": "H12 + H12'",
    "A1": "A1, first Gauss-Newton",
    "A2": "A2",
    "V1": "V1",
    "V2": "V2",
    "fisher": "Fisher",
    "H2_theta_block": "H2 / U, a row of [K|m]",
    "fisher_theta_block": "Fisher, a row of [K|m]",
}


def verdict(results: Mapping[str, Any]) -> tuple[str, str]:
    """What kind of point it is."""
    spectra = mapping(results.get("spectra"))
    if not spectra:
        return "open", "There are no results yet."
    whole = spectra.get("hessian", spectra.get("H2_theta_block"))
    kind = text(mapping(whole).get("definiteness"), "of unknown definiteness")
    name = "The Hessian" if "hessian" in spectra else "H2"
    second = text(mapping(spectra.get("H2")).get("definiteness"))
    more = f", H2 is {second}" if second and name == "The Hessian" else ""
    stationary = results.get("stationary")
    where = (
        ""
        if stationary is None
        else (" The point is stationary." if stationary else " The point is not stationary.")
    )
    return "open", f"{name} is {kind} at this point{more}.{where}"


def warnings(results: Mapping[str, Any]) -> list[str]:
    """What to know before a method is chosen."""
    said = []
    if results.get("singular") is True:
        unused = numbers(results.get("unused_parameters"))
        which = ", ".join(f"{one:g}" for one in unused if one is not None)
        more = f": parameters {which} never change the policy" if which else ""
        said.append(f"H2 is singular{more}; steps have no component there unless damped.")
    if results.get("guaranteed_ascent") is False:
        said.append("H2 is not guaranteed to be negative semidefinite here (Theorem 5).")
    return said


def sections(results: Mapping[str, Any]) -> list[Part]:
    """Spectra, matrices, and what is known beside them."""
    matrices = _matrices(results)
    spectra = mapping(results.get("spectra"))
    rows = [
        [name, one.get("smallest"), one.get("largest"), text(one.get("definiteness"))]
        for name, one in ((name, mapping(each)) for name, each in spectra.items())
    ]
    ranges = table("Eigenvalues", ["term", "smallest", "largest", "definiteness"], rows)
    return [
        section("Spectrum of the curvature", [_spectra(matrices), ranges]),
        section("Matrices", _heats(matrices, results)),
        section("What follows", [_facts(results)]),
    ]


def _matrices(results: Mapping[str, Any]) -> dict[str, np.ndarray]:
    found = {}
    for name in TERMS:
        rows = [numbers(row) for row in listed(results.get(name))]
        whole = rows and all(len(row) == len(rows) and None not in row for row in rows)
        if whole and len(rows) <= LARGEST:
            matrix = np.array(rows, float)
            found[name] = matrix + matrix.T if name == "H12" else matrix
    return found


def _spectra(matrices: Mapping[str, np.ndarray]) -> Part:
    curves: list[Part] = []
    largest = max((float(np.abs(matrix).max()) for matrix in matrices.values()), default=0.0)
    for name, matrix in matrices.items():
        values = np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]
        values = np.where(np.abs(values) < ROUND_OFF * largest, 0.0, values)
        ranks = np.arange(1, len(values) + 1)
        if len(values) > 1:
            curves.append(curve(TERMS[name], ranks, values, points=len(values) < 40))
    return chart("Eigenvalues by rank", "rank", "eigenvalue", curves, signed_log=True)


def _heats(matrices: Mapping[str, np.ndarray], results: Mapping[str, Any]) -> list[Part]:
    names = [text(one, "?") for one in listed(results.get("parameters"))]
    shared = [np.abs(one).max() for name, one in matrices.items() if "fisher" not in name]
    most, parts = max(shared, default=1.0) or 1.0, []
    for name, matrix in matrices.items():
        own = float(np.abs(matrix).max()) or 1.0
        labels = names if len(names) == len(matrix) else [f"w[{n}]" for n in range(len(matrix))]
        if "theta_block" in name:
            labels = [*(f"gain {n}" for n in range(len(matrix) - 1)), "offset"]
        scale = own if "fisher" in name else float(most)
        parts.append(heat(TERMS[name], labels, matrix, scale))
    return parts


def _facts(results: Mapping[str, Any]) -> Part:
    asked = {
        "objective": "objective U(w)",
        "log_objective": "log U(w)",
        "constant_curvature": "constant curvature (Definition 1)",
        "guaranteed_ascent": "H2 guaranteed negative semidefinite (Theorem 5)",
        "value_consistent": "value consistent (Definition 2)",
        "stationary": "stationary",
    }
    rows: list[list[Any]] = [
        [label, results[name]] for name, label in asked.items() if name in results
    ]
    gradient = [one for one in numbers(results.get("gradient")) if one is not None]
    if gradient:
        rows.append(["norm of the gradient", float(np.linalg.norm(gradient))])
    for name, each in mapping(results.get("rates")).items():
        rows.append([f"linear rate of {spoken(name)} at step 1", real(mapping(each).get("rate"))])
    return table("At this point", ["", "value"], rows)
