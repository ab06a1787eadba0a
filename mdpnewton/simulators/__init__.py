"""Simulators that play episodes with a policy, and the episodes; `evaluators` judge them."""

from mdpnewton.simulators.abstract import DivergedError, SimulationError, Simulator, Spaces
from mdpnewton.simulators.compiled import CompiledSimulator, UnitActions
from mdpnewton.simulators.described import described, spaces_of
from mdpnewton.simulators.distributed import Distributed
from mdpnewton.simulators.finite import FiniteSimulator
from mdpnewton.simulators.gymnasium import GymnasiumSimulator
from mdpnewton.simulators.quadratic import QuadraticSimulator
from mdpnewton.simulators.timed import Timed, tells_time, timed, with_time
from mdpnewton.simulators.trajectories import Trajectories

__all__ = [
    "CompiledSimulator",
    "Distributed",
    "DivergedError",
    "FiniteSimulator",
    "GymnasiumSimulator",
    "QuadraticSimulator",
    "SimulationError",
    "Simulator",
    "Spaces",
    "Timed",
    "Trajectories",
    "UnitActions",
    "described",
    "spaces_of",
    "tells_time",
    "timed",
    "with_time",
]
