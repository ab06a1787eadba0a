"""Cassandra's .pomdp format: from text to `FinitePOMDP` and back."""

from mdpnewton.files.pomdp_text.parser import parse_pomdp
from mdpnewton.files.pomdp_text.tokens import POMDPError
from mdpnewton.files.pomdp_text.writer import format_pomdp

__all__ = ["POMDPError", "format_pomdp", "parse_pomdp"]
