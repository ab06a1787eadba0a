"""Simulators: whatever plays episodes with a policy."""

from mdpnewton.simulators.abstract import SimulationError, Simulator, Spaces
from mdpnewton.simulators.compiled import CompiledSimulator, UnitActions
from mdpnewton.simulators.finite import FiniteSimulator
from mdpnewton.simulators.gym import GymnasiumSimulator

__all__ = [
    "CompiledSimulator",
    "FiniteSimulator",
    "GymnasiumSimulator",
    "SimulationError",
    "Simulator",
    "Spaces",
    "UnitActions",
]
