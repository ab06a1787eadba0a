"""The one table of methods: a row has a name, a label, a colour, and what it is in each place.

A new method is a row here. Commands, drivers, figures and the documentation read this table.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mdpnewton.checks import choice
from mdpnewton.methods.abstract import Method
from mdpnewton.methods.compatible import Compatible
from mdpnewton.methods.expectation_maximization import (
    BlockwiseMaximization,
    ExpectationMaximization,
)
from mdpnewton.methods.first_order import RandomDirection, Steepest
from mdpnewton.methods.guarded import Guarded
from mdpnewton.methods.places import PLACES, Factory, Row, Settings
from mdpnewton.methods.precondition import Precondition, TightOffset
from mdpnewton.methods.rows import (
    RowMethod,
    diagonal_rows,
    gauss_newton_rows,
    maximization_rows,
    natural_rows,
    steepest_rows,
)
from mdpnewton.solve import Block, ConjugateGradient, Cubic, Dense, Diagonal, Solver, TrustRegion


def _always(method: Any) -> Callable[[Settings], Any]:
    """The factory of a method that takes no settings."""
    return lambda _: method


def _dense(curvature: str, *, absolute: bool = False, offset: bool = False) -> Factory:
    """The factory of a damped dense solve, with the tight offset if asked for."""
    return lambda of: Precondition(
        curvature,
        Dense(absolute=absolute, relative_ridge=of.damping),
        TightOffset(of.margin) if offset else 0.0,
    )


def _blocks(curvature: str, *, offset: bool = False) -> Factory:
    """The factory of a damped solve with blocks, with the tight offset if asked for.

    The blocks are those of the leaves of `w`, or smaller ones if the policy knows of them.
    """
    return lambda of: Precondition(
        curvature, Block(relative_ridge=of.damping), TightOffset(of.margin) if offset else 0.0
    )


def _truncated(curvature: str, *, offset: bool = False) -> Factory:
    """The factory of a few damped conjugate gradients, with the tight offset if asked for."""
    return lambda of: Precondition(
        curvature,
        ConjugateGradient(iterations=20, tolerance=1e-3, relative_ridge=of.damping),
        TightOffset(of.margin) if offset else 0.0,
    )


def _guarded(method: Method) -> Factory:
    """The factory of a method whose step might take a standard deviation to zero."""
    return lambda of: method if of.size is None else Guarded(method, of.size)


def _preconditioned(curvature: str, solver: Solver) -> Factory:
    return _always(Precondition(curvature, solver))


# Matrices that may be indefinite, and the two regions that make steps of them all the same.
INDEFINITE = (
    ("newton", "Newton", "hessian"),
    ("first_gauss_newton", "first Gauss-Newton", "A1+A2"),
    ("second_gauss_newton", "second Gauss-Newton", "H2"),
)
REGIONS: tuple[tuple[str, Solver, tuple[str, str, str]], ...] = (
    ("trust_region", TrustRegion(), ("crimson", "indianred", "steelblue")),
    ("cubic", Cubic(), ("darkviolet", "orchid", "cadetblue")),
)

# In training, "generalized" equals V2 and "generalized_fisher" the Fisher matrix for policies that
# are linear in features, and they are faster; for black boxes the latter is exact, because a policy
# that sees no state has outputs that are the same everywhere.
TABLE: dict[str, Row] = {
    row.name: row
    for row in (
        Row(
            "second_gauss_newton",
            "second Gauss-Newton",
            "tab:blue",
            exact=_preconditioned("H2", Dense()),
            sampled=_blocks("generalized", offset=True),
            network=_truncated("generalized", offset=True),
            bandit=_preconditioned("H2", Block()),
            controller=_always(RowMethod(gauss_newton_rows)),
            tetris=_dense("H2"),
        ),
        Row(
            "raw_second_gauss_newton",
            "second Gauss-Newton, no offset",
            "deepskyblue",
            sampled=_blocks("generalized"),
            network=_truncated("generalized"),
        ),
        Row(
            "block_second_gauss_newton",
            "second Gauss-Newton, blocks",
            "tab:blue",
            exact=_preconditioned("H2", Block()),
            controller=_always(RowMethod(gauss_newton_rows)),  # it is the same as without blocks
        ),
        Row(
            "diagonal_second_gauss_newton",
            "diagonal second Gauss-Newton",
            "black",
            exact=_preconditioned("H2", Diagonal()),
            controller=_always(RowMethod(diagonal_rows)),
            tetris=lambda of: Precondition("H2", Diagonal(relative_ridge=of.damping)),
        ),
        Row(
            "conjugate_gradient_second_gauss_newton",
            "second Gauss-Newton, conjugate gradients",
            "royalblue",
            exact=_preconditioned("H2", ConjugateGradient()),
        ),
        Row(
            "generalized_gauss_newton",
            "generalised Gauss-Newton",
            "slateblue",
            exact=_preconditioned("generalized", ConjugateGradient()),
        ),
        Row(
            "expectation_maximization",
            "expectation maximisation",
            "tab:brown",
            exact=_always(ExpectationMaximization()),
            bandit=_always(ExpectationMaximization()),
            controller=_always(RowMethod(maximization_rows, "whole")),
        ),
        Row(
            "blockwise_expectation_maximization",
            "EM, about the old mean",
            "tan",
            bandit=_always(BlockwiseMaximization()),
        ),
        Row(
            "natural",
            "natural gradient",
            "tab:olive",
            exact=_preconditioned("fisher", Dense()),
            sampled=_blocks("generalized_fisher"),
            network=_truncated("generalized_fisher"),
            bandit=_guarded(Precondition("generalized_fisher", Block())),
            controller=_always(RowMethod(natural_rows)),
            tetris=_dense("fisher"),
        ),
        Row(
            "conjugate_gradient_natural",
            "natural gradient, conjugate gradients",
            "yellowgreen",
            exact=_preconditioned("fisher_score", ConjugateGradient()),
        ),
        Row(
            "compatible_natural",
            "compatible natural gradient",
            "tab:cyan",
            exact=_always(Compatible()),
        ),
        Row(
            "network_natural",
            "natural gradient, networks",
            "darkolivegreen",
            exact=_preconditioned("generalized_fisher", ConjugateGradient()),
        ),
        Row(
            "steepest",
            "steepest ascent",
            "tab:green",
            exact=_always(Steepest()),
            sampled=_always(Steepest()),
            network=_always(Steepest()),
            bandit=_guarded(Steepest()),
            controller=_always(RowMethod(steepest_rows)),
            tetris=_always(Steepest()),
        ),
        Row(
            "adam",
            "Adam",
            "tab:orange",
            controller=_always(RowMethod(steepest_rows, "adam")),
        ),
        Row(
            "first_gauss_newton",
            "first Gauss-Newton",
            "tab:red",
            exact=_preconditioned("A1+A2", Dense()),
            sampled=_dense("A1", absolute=True),
            network=_truncated("A1"),
            bandit=_guarded(Precondition("A1+A2", Block())),
        ),
        Row(
            "diagonal_first_gauss_newton",
            "diagonal first Gauss-Newton",
            "tab:purple",
            exact=_preconditioned("A1+A2", Diagonal()),
        ),
        Row(
            "block_first_gauss_newton",
            "first Gauss-Newton, blocks",
            "salmon",
            exact=_preconditioned("A1+A2", Block()),
        ),
        Row("newton", "Newton", "tab:pink", exact=_preconditioned("hessian", Dense())),
        Row(
            "conjugate_gradient_newton",
            "Newton, conjugate gradients",
            "hotpink",
            exact=_preconditioned("hessian", ConjugateGradient()),
        ),
        Row(
            "hessian_free_newton",
            "Newton, Hessian-free",
            "mediumvioletred",
            exact=_preconditioned("differenced_hessian", ConjugateGradient()),
        ),
        *(
            Row(
                f"{region}_{name}",
                f"{label}, {region.replace('_', ' ')}",
                color,
                exact=_preconditioned(form, solver),
            )
            for region, solver, colors in REGIONS
            for (name, label, form), color in zip(INDEFINITE, colors, strict=True)
        ),
        Row(
            "random",
            "random direction",
            "tab:gray",
            sampled=_always(RandomDirection()),
            network=_always(RandomDirection()),
        ),
    )
}


def names(place: str) -> tuple[str, ...]:
    """The methods that apply in a place, in the order of the table.

    Args:
        place: One of `PLACES`: "exact", "sampled", "network", "bandit", "controller" or "tetris".
    """
    choice("names", "place", place, PLACES)
    return tuple(name for name, row in TABLE.items() if place in row.places)


def method_for(name: str, place: str, settings: Settings | None = None) -> Any:
    """The method of a name as it is in a place.

    Args:
        name: One of `names(place)`.
        place: One of `PLACES`.
        settings: The numbers of the place.

    Returns:
        A `Method`, or for "controller" a `RowMethod`.
    """
    choice("method_for", "name", name, names(place))
    return getattr(TABLE[name], place)(settings or Settings())


def row_named(name: str) -> Row:
    """The row of a method, for its label and colour."""
    if name not in TABLE:
        raise ValueError(f"there is no method {name!r}; choose one of {', '.join(TABLE)}.")
    return TABLE[name]


def listed() -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, label and places of every method: what `mdpnewton list methods` shows."""
    return [(row.name, row.label, row.places) for row in TABLE.values()]


class MethodsOf(Mapping[str, Method]):
    """The methods of one place by name, as the table has them now.

    Attributes:
        place: One of `PLACES`.
        settings: The numbers of the place.
    """

    def __init__(self, place: str, settings: Settings | None = None):
        self.place, self.settings = choice("MethodsOf", "place", place, PLACES), settings

    def __getitem__(self, name: str) -> Method:
        if name not in names(self.place):
            raise KeyError(name)
        found: Method = method_for(name, self.place, self.settings)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(names(self.place))

    def __len__(self) -> int:
        return len(names(self.place))


METHODS: Mapping[str, Method] = MethodsOf("exact")
