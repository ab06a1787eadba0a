"""What a row of the table of methods is, and the places where a method may apply."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from mdpnewton.checks import instance, number, refuse
from mdpnewton.methods.abstract import Method
from mdpnewton.methods.rows import RowMethod


@dataclass(frozen=True)
class Settings:
    """The numbers that a place gives to its methods; a method uses those that it needs.

    Attributes:
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        margin: Margin of the tight offset, see `TightOffset`.
        size: Step size that a black-box search is going to take, or None for directions that
            nothing guards, see `Guarded`.
    """

    damping: float = 0.0
    margin: float = 0.2
    size: float | None = None

    def __post_init__(self) -> None:
        number("Settings", "damping", self.damping, least=0)
        number("Settings", "margin", self.margin, least=0)
        if self.size is not None:
            number("Settings", "size", self.size, above=0)


Factory = Callable[[Settings], Method]


@dataclass(frozen=True)
class Row:
    """A method: what it is called, how it looks, and a factory for each place where it applies.

    Attributes:
        name: Its name in commands and calls.
        label: Its name in figures and tables.
        color: Its colour in figures, as Matplotlib knows it.
        exact: For evaluations with weighted pairs, as exact evaluators give them.
        sampled: For `train` with a policy that is linear in features.
        network: For `train` with a network.
        bandit: For `maximize` and `minimize`, a Gaussian over points.
        controller: For `search_controllers`, the rows of a controller in closed form.
        tetris: For matrices that the Tetris simulator adds up.
    """

    name: str
    label: str
    color: str
    exact: Factory | None = None
    sampled: Factory | None = None
    network: Factory | None = None
    bandit: Factory | None = None
    controller: Callable[[Settings], RowMethod] | None = None
    tetris: Factory | None = None

    def __post_init__(self) -> None:
        for name in ("name", "label", "color"):
            instance("Row", name, getattr(self, name), str, "pass some text")
        if not self.places:
            refuse("Row", "exact", f"or another of {', '.join(PLACES)} needs a factory")
        for place in self.places:
            if not callable(getattr(self, place)):
                refuse("Row", place, "needs a function from `Settings` to a method")

    @property
    def places(self) -> tuple[str, ...]:
        """Where the method applies."""
        return tuple(place for place in PLACES if getattr(self, place) is not None)


PLACES = tuple(field.name for field in fields(Row))[3:]
