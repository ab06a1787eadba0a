"""Trained policies outside of the library: loaded without an environment, and exported."""

from mdpnewton.deployment.controller import LoadedController
from mdpnewton.deployment.load import load
from mdpnewton.deployment.policy import LoadedPolicy
from mdpnewton.deployment.tetris import LoadedTetris
from mdpnewton.domains.tetris.placing import TetrisMove

__all__ = ["LoadedController", "LoadedPolicy", "LoadedTetris", "TetrisMove", "load"]
