"""POMDPX, the XML of SARSOP and its kin: flat and factored models as one `FinitePOMDP`."""

from mdpnewton.files.pomdpx.reader import parse_pomdpx
from mdpnewton.files.pomdpx.tree import POMDPXError

__all__ = ["POMDPXError", "parse_pomdpx"]
