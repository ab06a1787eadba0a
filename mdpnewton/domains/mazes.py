"""The two mazes of Section 3.3, Figure 1: a hallway and McCallum's grid.

There are four actions (up, down, left, right); a move into a wall stays in the cell. The action
that reaches the goal earns 1, and from the goal every action leads to a start state. States are
numbered as in the figure, but from 0.
"""

from dataclasses import dataclass

import numpy as np

from mdpnewton.checks import choice
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Gibbs, gibbs_over_successors

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right


@dataclass(frozen=True)
class Maze:
    """A maze given by the walls of its cells.

    Attributes:
        cells: Row and column of each state.
        walls: Whether each state has a wall above, below, left and right.
        starts: The start states, which are equally likely.
        goal: The goal state.
    """

    cells: tuple[tuple[int, int], ...]
    walls: tuple[tuple[int, int, int, int], ...]
    starts: tuple[int, ...]
    goal: int

    def successor(self, state: int, action: int) -> int:
        """The state that an action leads to from any state but the goal."""
        if self.walls[state][action]:
            return state
        row, column = self.cells[state]
        down, right = MOVES[action]
        return self.cells.index((row + down, column + right))

    def mdp(self, discount: float) -> FiniteMDP:
        """The maze as an MDP."""
        n = len(self.cells)
        transition, reward = np.zeros((n, 4, n)), np.zeros((n, 4))
        start = np.zeros(n)
        start[list(self.starts)] = 1 / len(self.starts)
        for state in range(n):
            for action in range(4):
                if state == self.goal:
                    transition[state, action] = start
                    continue
                reached = self.successor(state, action)
                transition[state, action, reached] = 1
                reward[state, action] = reached == self.goal
        return FiniteMDP(transition, reward, start, discount)

    def policy(self, discount: float, features: str = "successor") -> Gibbs:
        """A Gibbs policy over wall patterns, which alias states.

        Args:
            discount: Discount factor of the MDP, of which only the transitions matter here.
            features: "successor" for the walls of the next state, 4 parameters, as in the paper;
                "current" for the walls of this state with one weight vector per action, 16
                parameters.
        """
        choice("Maze.policy", "features", features, ("successor", "current"))
        walls = np.array(self.walls, dtype=float)
        if features == "successor":
            return gibbs_over_successors(self.mdp(discount), walls)
        return Gibbs(np.einsum("ab,si->sabi", np.eye(4), walls).reshape(len(walls), 4, 16))


HALLWAY = Maze(
    cells=tuple((0, column) for column in range(5)),
    walls=((1, 1, 1, 0), (1, 1, 0, 0), (1, 1, 0, 0), (1, 1, 0, 0), (1, 1, 0, 1)),
    starts=(0,),
    goal=4,
)

MCCALLUM = Maze(
    cells=tuple((row, column) for row in range(3) for column in range(3)),
    walls=(
        (1, 0, 1, 0),
        (1, 0, 0, 0),
        (1, 0, 0, 1),
        *[(0, 0, 1, 1)] * 3,
        *[(0, 1, 1, 1)] * 3,
    ),
    starts=(6, 8),
    goal=7,
)
