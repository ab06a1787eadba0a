"""From the name of an environment to its simulator, and to the environment that draws it."""

from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.navigation import Navigation
from mdpnewton.environments import IDS
from mdpnewton.simulators import (
    CompiledSimulator,
    GymnasiumSimulator,
    Simulator,
    Timed,
    UnitActions,
)

DOMAINS = {"cartpole": CartPole, "navigation": Navigation}


def simulator_of(environment: str | Simulator) -> Simulator:
    """The simulator that a name stands for, or the given simulator, with unit actions.

    Args:
        environment: A name in `DOMAINS`, a Gymnasium id, or a simulator.
    """
    if isinstance(environment, str):
        if environment not in DOMAINS:
            return GymnasiumSimulator(environment, unit_actions=True)
        environment = DOMAINS[environment]()
    ready = isinstance(environment, UnitActions | Timed)
    if isinstance(environment, CompiledSimulator) and not ready:
        return UnitActions(environment)
    return environment


def environment_id(name: str) -> str:
    """The Gymnasium id of the environment of that name, which can draw it."""
    return IDS.get(name, name)
