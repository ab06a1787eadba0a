"""How pieces of `alone` make a policy, as data: put together here, or written into a file."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mdpnewton.policies import alone

WIDTH = 88  # letters of a line


class Piece(NamedTuple):
    """A call as data.

    Attributes:
        function: What is called.
        arguments: Numbers, texts, lists and tuples; functions; other pieces; and arrays by name,
            as `Stored`.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Stored(NamedTuple):
    """An array by its name."""

    name: str


def made(recipe: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """What the recipe makes of the arrays."""
    if isinstance(recipe, Piece):
        return recipe.function(*(made(one, arrays) for one in recipe.arguments))
    if isinstance(recipe, Stored):
        return arrays[recipe.name]
    if isinstance(recipe, list | tuple):
        return type(recipe)(made(one, arrays) for one in recipe)
    return recipe


def written(recipe: Any, indent: str = "") -> str:
    """The recipe as an expression of Python, which finds its arrays in `ARRAYS`."""
    if isinstance(recipe, Stored):
        return f"ARRAYS[{recipe.name!r}]"
    if callable(recipe):
        return str(recipe.__name__)
    if isinstance(recipe, Piece):
        begin, end, parts = f"{recipe.function.__name__}(", ")", list(recipe.arguments)
    elif isinstance(recipe, list | tuple):
        end = "]" if isinstance(recipe, list) else ")" if len(recipe) != 1 else ",)"
        begin, parts = "[" if isinstance(recipe, list) else "(", list(recipe)
    else:
        return repr(recipe)
    line = f"{begin}{', '.join(written(one) for one in parts)}{end}"
    if len(indent) + len(line) <= WIDTH:
        return line
    inner = f"{indent}    "
    lines = [f"{inner}{written(one, inner)},\n" for one in parts]
    return f"{begin}\n{''.join(lines)}{indent}{end.lstrip(',')}"


def reading(space: Mapping[str, Any]) -> Piece:
    """From a raw observation to its vector, as Gymnasium flattens it.

    Args:
        space: Description of the space; see `described`.
    """
    kind = space["kind"]
    if kind in ("Dict", "Tuple"):
        names = [name for name, _ in space["spaces"]]
        return Piece(alone.parts, (kind, names, [reading(inner) for _, inner in space["spaces"]]))
    array = Piece(alone.vector, (tuple(space["shape"]), space["dtype"]))
    if "sizes" not in space:
        return array
    return Piece(alone.one_hot, (array, space["start"], list(space["sizes"])))


def choosing(about: Mapping[str, Any], arrays: Mapping[str, Any]) -> Piece:
    """From an observation to an action of the policy; see `plainly`, which gives both."""
    features = Piece(alone.itself, ())
    if "mean" in arrays:
        names = ("mean", "scale", "limit", "frequencies", "phases")
        makes = alone.fourier if "frequencies" in arrays else alone.standardized
        features = Piece(makes, tuple(Stored(name) for name in names if name in arrays))
    layers = [
        (Stored(f"weight{n}"), Stored(f"bias{n}") if f"bias{n}" in arrays else None)
        for n in range(about["layers"])
    ]
    outputs = Piece(alone.layered, (features, layers))
    if about["distribution"] == "softmax":
        return Piece(alone.softmax, (outputs,))
    if about["distribution"] == "product":
        return Piece(alone.product, (outputs, np.cumsum(about["sizes"])[:-1].tolist()))
    chosen = Piece(alone.gaussian, (outputs, Stored("root")))
    return Piece(alone.squashed, (chosen,)) if about["squashed"] else chosen


def sending(space: Mapping[str, Any]) -> Piece:
    """From an action of the policy to what the environment gets."""
    shape, dtype = tuple(space["shape"]), space["dtype"]
    if space["kind"] == "Discrete":
        return Piece(alone.to_number, (space["start"], dtype))
    if space["kind"] != "Box":
        return Piece(alone.to_numbers, (space["start"], shape, dtype))
    ends = [Stored(name) for name in ("middle", "half", "low", "high")]
    return Piece(alone.to_box, (*ends, shape, dtype, space["whole"]))


def acting(about: Mapping[str, Any], choose: Any) -> Piece:
    """A whole policy.

    Args:
        about: The spaces of `observation` and `action`, the `deadline` as which the policy was told
            the time (None if it was not), the `horizon` of an episode, and whether it is `greedy`.
        choose: How it chooses: a piece, or a function where nothing is to be written.
    """
    parts = (reading(about["observation"]), choose, sending(about["action"]), about["greedy"])
    if about["deadline"]:
        return Piece(alone.ActingInTime, (*parts, about["deadline"], about["horizon"]))
    return Piece(alone.Acting, parts)
