"""Ball-in-a-cup on a Barrett WAM, Section 6.6, in MuJoCo."""

from mdpnewton.domains.ball_in_cup.demonstration import Demonstration, load_demonstration
from mdpnewton.domains.ball_in_cup.primitives import Movement, Primitives
from mdpnewton.domains.ball_in_cup.rollouts import BallInCup, Rollouts

__all__ = [
    "BallInCup",
    "Demonstration",
    "Movement",
    "Primitives",
    "Rollouts",
    "load_demonstration",
]
