"""An analysis as a table to read and as JSON to keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Group
from rich.markup import escape
from rich.table import Table

from mdpnewton.analysis.finite import Analysis
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.names import listed
from mdpnewton.policies import Policy, TabularSoftmax

MOST = 1_000  # parameters of which JSON has the matrices
SHOWN = 20  # numbers that are listed one by one


def as_json(analysis: Analysis, policy: Policy, mdp: FiniteMDP | None = None) -> dict[str, Any]:
    """Everything in the analysis, with matrices as nested lists in full precision.

    Matrices of more than 1,000 parameters are left out: ten of them would fill a gigabyte. What is
    left out is None, and `left_out` says why.

    Args:
        analysis: The analysis.
        policy: Its policy, which names the parameters: rows and columns of the matrices.
        mdp: The problem, for the names of its states and actions; None for numbers.
    """
    small, consistency = len(analysis.gradient) <= MOST, analysis.consistency
    spectra = {
        name: {
            "smallest": spectrum.smallest,
            "largest": spectrum.largest,
            "definiteness": spectrum.definiteness,
        }
        for name, spectrum in analysis.spectra.items()
    }
    rates = {
        name: {
            **({"jacobian": r.jacobian.tolist()} if small else {}),
            "rate": r.rate,
            "largest_step": r.largest_step,
        }
        for name, r in analysis.rates.items()
    }
    return {
        "objective": analysis.objective,
        "parameters": parameter_names(policy, len(analysis.gradient), mdp),
        "gradient": analysis.gradient.tolist(),
        **{name: matrix.tolist() for name, matrix in analysis.terms.items() if small},
        "occupancy": analysis.occupancy.tolist(),
        "value": analysis.value.tolist(),
        "advantage": analysis.advantage.tolist(),
        "constant_curvature": analysis.constant_curvature,
        "value_consistent": None if consistency is None else consistency.consistent,
        "witness": None if consistency is None else consistency.witness,
        "spectra": spectra,
        "guaranteed_ascent": analysis.guaranteed,
        "singular": analysis.singular,
        "unused_parameters": analysis.unused_parameters,
        "stationary": analysis.stationary,
        "rates": rates,
        "left_out": left_out(analysis),
    }


def left_out(analysis: Analysis) -> str:
    """What was left out, and why; empty if nothing was."""
    if analysis.left_out or len(analysis.gradient) <= MOST:
        return analysis.left_out
    return f"more than {MOST:,} parameters: results.json has no matrices"


def parameter_names(policy: Policy, count: int, mdp: FiniteMDP | None) -> list[str]:
    """The names of flat parameters: state and action for a table, else their numbers."""
    if isinstance(policy, TabularSoftmax):
        width = policy.n_actions - policy.reduced  # the last action may have no parameter
        states = None if mdp is None else mdp.state_names
        actions = None if mdp is None else mdp.action_names
        return [
            f"{_named(states, n // width, 's')} {_named(actions, n % width, 'a')}"
            for n in range(count)
        ]
    return [f"w[{n}]" for n in range(count)]


def _named(names: Sequence[str] | None, number: int, letter: str) -> str:
    return f"{letter}{number}" if names is None else names[number]


def analysis_table(
    analysis: Analysis, mdp: FiniteMDP | None = None, parameters: Sequence[str] = ()
) -> Group:
    """The eigenvalue ranges of every term, and what follows from them in words.

    Args:
        analysis: The analysis.
        mdp: The problem, for its criterion and the names of its states; None for numbers.
        parameters: Names of the parameters; without any they go by their numbers.
    """
    of = "" if mdp is None or mdp.criterion == "discounted" else f", {mdp.criterion} reward"
    table = Table(title=f"Policy Hessian at U(w) = {analysis.objective:.6g}{of}")
    for column in ("term", "smallest", "largest", "definiteness"):
        right = column in ("smallest", "largest")
        table.add_column(column, justify="right" if right else "left")
    for name, spectrum in analysis.spectra.items():
        low, high = f"{spectrum.smallest:.4g}", f"{spectrum.largest:.4g}"
        table.add_row(name, low, high, spectrum.definiteness)
    return Group(table, *_sentences(analysis, mdp, parameters))


def _sentences(analysis: Analysis, mdp: FiniteMDP | None, parameters: Sequence[str]) -> list[str]:
    yes = {True: "yes", False: "no"}
    lines = [
        f"parameters: {len(analysis.gradient)}, gradient norm: "
        f"{np.linalg.norm(analysis.gradient):.4g}",
        f"constant curvature (Definition 1): {yes[analysis.constant_curvature]}",
        f"H2 guaranteed negative semidefinite (Theorem 5): {yes[analysis.guaranteed]}",
    ]
    consistency = analysis.consistency
    if consistency is not None:
        said = yes[consistency.consistent]
        lines.append(f"value consistent at w (Definition 2): {said}")
    witness = None if consistency is None else consistency.witness
    if witness is not None:
        slopes = ", ".join(f"{slope:.3g}" for slope in witness["value_gradient"])
        states = witness["states"]
        if mdp is not None and mdp.state_names is not None:
            states = escape(f"[{listed(mdp.states, states)}]")
        lines.append(
            f"  witness: parameter {_some([witness['parameter']], parameters)}, states {states}, "
            f"dV = {slopes} ({witness['kind']})"
        )
    if analysis.singular:
        unused = _some(analysis.unused_parameters, parameters)
        which = rf": parameters \[{unused}] never change the policy" if unused else ""
        lines.append(f"H2 is singular{which}; steps have no component there unless damped")
    for name, rate in analysis.rates.items():
        largest = "none" if rate.largest_step is None else f"(0, {rate.largest_step:.4g})"
        lines.append(
            f"{name}: linear rate {rate.rate:.4g} at step 1, steps that converge {largest}"
        )
    if left_out(analysis):
        lines.append(left_out(analysis))
    if not analysis.stationary:
        lines.append(
            "w is not stationary: no convergence rates (Theorems 9, 10, 12); "
            "`mdpnewton analyze MODEL --optimize` goes to a stationary point first"
        )
    return lines


def _some(numbers: list[int], names: Sequence[str]) -> str:
    """Parameters as people list them: by their names if they have any, and many are counted."""
    called = [escape(names[n]) if names else str(n) for n in numbers[:SHOWN]]
    more = f", ... ({len(numbers):,} of them)" if len(numbers) > SHOWN else ""
    return f"{', '.join(called)}{more}"
