"""Cassandra's .pomdp format: from text to `FinitePOMDP` and back."""

from mdpnewton.pomdp_text.parser import parse_pomdp
from mdpnewton.pomdp_text.tokens import POMDPError
from mdpnewton.pomdp_text.writer import format_pomdp

__all__ = ["POMDPError", "format_pomdp", "parse_pomdp"]
