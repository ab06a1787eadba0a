"""What a policy sees and does, as plain data: enough to act without the simulator."""

import math
from typing import Any

import numpy as np

from mdpnewton.plain import entries
from mdpnewton.simulators.abstract import Simulator, Spaces
from mdpnewton.simulators.compiled import UnitActions
from mdpnewton.simulators.distributed import Distributed
from mdpnewton.simulators.gymnasium import GymnasiumSimulator
from mdpnewton.simulators.timed import Timed

Described = dict[str, Any]


def described(simulator: Simulator) -> Described:
    """The spaces of a simulator, its deadline and its horizon, as acting needs them.

    The keys are `observation` and `action`, descriptions of the environment's own spaces; `size`,
    the length of a flattened observation; `bounds`, which has `low`, `high`, and `middle` and
    `half`, which take a unit action to the box; `deadline`, None if the policy is not told the
    time; and `horizon`.
    """
    horizon, deadline, unit = simulator.horizon, None, False
    while isinstance(simulator, Distributed | Timed | UnitActions):
        if isinstance(simulator, Timed):
            deadline = simulator.deadline
        unit = unit or isinstance(simulator, UnitActions)
        simulator = simulator.simulator
    if isinstance(simulator, GymnasiumSimulator):
        face = simulator.interface
        deadline, unit, spaces = face.deadline, face.unit_actions, face.spaces
        seen, done = _space(face.observations), _space(face.actions)
        done |= {"whole": bool(face.whole)}
    else:
        spaces = simulator.spaces
        seen = {"kind": "Box", "shape": [spaces.observation], "dtype": "float64"}
        done = {**_compiled(spaces), "whole": False}
    return {
        "observation": seen,
        "action": done,
        "size": spaces.observation,
        "bounds": _bounds(spaces, unit),
        "deadline": deadline,
        "horizon": int(horizon),
    }


def spaces_of(call: str, about: Any) -> Spaces:
    """The spaces as the policy inside knows them: a vector, and actions in units.

    Args:
        call: Name of the call, for the error.
        about: What `described` gave.
    """
    names = ("observation", "action", "size", "bounds", "deadline", "horizon")
    parts = dict(zip(names, entries(call, about, *names), strict=True))
    size, done = parts["size"] + bool(parts["deadline"]), parts["action"]
    if done["kind"] == "Box":
        low, high, middle, half = (parts["bounds"][n] for n in ("low", "high", "middle", "half"))
        unit = np.where(half > 0, half, 1)
        return Spaces(size, low=(low - middle) / unit, high=(high - middle) / unit)
    if done["kind"] == "Discrete":
        return Spaces(size, done["sizes"][0])
    two_each = [2] * math.prod(done["shape"])  # a MultiBinary
    return Spaces(size, choices=tuple(done.get("sizes", two_each)))


def _bounds(spaces: Spaces, unit: bool) -> dict[str, np.ndarray]:
    """Ends of the box, and what takes an action of the policy to it."""
    if spaces.low is None or spaces.high is None:
        return {}
    middle, half = np.zeros(spaces.action_size), np.ones(spaces.action_size)
    if unit:
        middle, half = spaces.middle(), spaces.half_range()
    low, high = np.asarray(spaces.low, float), np.asarray(spaces.high, float)
    return {"low": low, "high": high, "middle": middle, "half": half}


def _space(space: Any) -> Described:
    """A space of Gymnasium."""
    from gymnasium import spaces

    kind = next(name for name in _KINDS if isinstance(space, getattr(spaces, name)))
    if kind in ("Dict", "Tuple"):
        inner = space.spaces.items() if kind == "Dict" else enumerate(space.spaces)
        return {"kind": kind, "spaces": [[name, _space(one)] for name, one in inner]}
    found = {"kind": kind, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}
    if kind == "Discrete":
        return {**found, "sizes": [int(space.n)], "start": int(space.start)}
    if kind == "MultiDiscrete":
        sizes, start = space.nvec.ravel().tolist(), np.ravel(space.start).tolist()
        return {**found, "sizes": sizes, "start": start}
    return {**found, "start": 0}


_KINDS = ("Dict", "Tuple", "Discrete", "MultiDiscrete", "MultiBinary", "Box")


def _compiled(spaces: Spaces) -> Described:
    """The actions of a compiled simulator."""
    if spaces.actions is not None:
        kind, shape, sizes = "Discrete", [], [spaces.actions]
    elif spaces.choices is not None:
        kind, shape, sizes = "MultiDiscrete", [len(spaces.choices)], list(spaces.choices)
    else:
        kind, shape, sizes = "Box", [spaces.action_size], []
    dtype = "float64" if kind == "Box" else "int64"
    found = {"kind": kind, "shape": shape, "dtype": dtype, "start": 0}
    return {**found, "sizes": sizes} if sizes else found
