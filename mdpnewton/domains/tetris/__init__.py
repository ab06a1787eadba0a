"""Tetris, Section 6.5: the rules of Bertsekas and Ioffe (1996), compiled for speed.

`play` and `estimate` are the fast simulator (Numba, compiled at the first call); `plain` and
`plain_estimates` say the same in plain Python, and are what it is tested against.
"""

from mdpnewton.domains.tetris.games import Played as Played
from mdpnewton.domains.tetris.rules import Estimate as Estimate
from mdpnewton.domains.tetris.rules import RecurrentBoard as RecurrentBoard
from mdpnewton.domains.tetris.rules import Survival as Survival
from mdpnewton.domains.tetris.simulate import estimate as estimate
from mdpnewton.domains.tetris.simulate import play as play
from mdpnewton.domains.tetris.simulate import play_chunks as play_chunks
from mdpnewton.domains.tetris.tables import feature_names as feature_names

# Scherrer et al., JMLR 16 (2015), table 2: about 5,000 lines on 10x10, 51 million on 20x10.
DT_10 = (-2.18, 2.42, -2.17, -3.31, 0.95, -2.22, -0.81, -9.65, 1.27)
DT_20 = (-2.68, 1.38, -2.41, -6.32, 2.03, -2.71, -0.43, -9.48, 0.89)
