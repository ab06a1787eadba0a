"""Trained policies outside of the library: loaded without an environment, and exported."""

from mdpnewton.deployment.load import load
from mdpnewton.deployment.policy import LoadedPolicy

__all__ = ["LoadedPolicy", "load"]
