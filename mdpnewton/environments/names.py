"""From the name of an environment to its simulator, and to the environment that draws it."""

from typing import Any

from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.navigation import Navigation
from mdpnewton.environments import IDS
from mdpnewton.environments.given import given
from mdpnewton.simulators import (
    CompiledSimulator,
    GymnasiumSimulator,
    Simulator,
    Timed,
    UnitActions,
)

DOMAINS = {"cartpole": CartPole, "navigation": Navigation}


def simulator_of(environment: Any) -> Simulator:
    """The simulator that a name stands for, or that of what is given, with unit actions.

    Args:
        environment: A name in `DOMAINS`, a Gymnasium id, or what `given` takes.
    """
    if isinstance(environment, str):
        if environment not in DOMAINS:
            return GymnasiumSimulator(environment, unit_actions=True)
        environment = DOMAINS[environment]
    simulator = given(environment)
    ready = isinstance(simulator, UnitActions | Timed)
    if isinstance(simulator, CompiledSimulator) and not ready:
        return UnitActions(simulator)
    return simulator


def environment_id(name: str) -> str:
    """The Gymnasium id of the environment of that name, which can draw it."""
    return IDS.get(name, name)
