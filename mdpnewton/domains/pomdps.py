"""The POMDPs that come with the package as .pomdp files, built from their published definitions."""

from collections.abc import Callable, Iterator
from itertools import product
from math import prod

import numpy as np

from mdpnewton.checks import whole
from mdpnewton.domains.mazes import HALLWAY, MCCALLUM, Maze
from mdpnewton.models.pomdp import ANY, FinitePOMDP, OutcomeReward

SIDES = ("up", "down", "left", "right")

# McCallum's maze, row by row; a 1 means a wall, in the order above, below, left, right.
CHEESE = Maze(
    cells=(*((0, c) for c in range(5)), *((1, c) for c in (0, 2, 4)), (2, 0), (2, 4), (2, 2)),
    walls=(
        (1, 0, 1, 0),
        (1, 1, 0, 0),
        (1, 0, 0, 0),
        (1, 1, 0, 0),
        (1, 0, 0, 1),
        *[(0, 0, 1, 1)] * 3,
        *[(0, 1, 1, 1)] * 3,
    ),
    starts=tuple(range(10)),
    goal=10,
)


def tiger(discount: float = 0.95) -> FinitePOMDP:
    """The tiger problem.

    A tiger waits behind one of two doors, a treasure behind the other. Listening costs 1 and is
    right with probability 0.85. Opening a door earns 10 or costs 100 and starts over; what is heard
    then carries no information.

    Cassandra, Kaelbling & Littman, Acting optimally in partially observable stochastic domains,
    AAAI 1994; Kaelbling, Littman & Cassandra, Planning and acting in partially observable
    stochastic domains, Artificial Intelligence 101, 1998.

    Args:
        discount: Discount factor.
    """
    anew = np.full((2, 2), 0.5)
    return FinitePOMDP(
        transition=np.stack([np.eye(2), anew, anew]),
        observation=np.stack([[[0.85, 0.15], [0.15, 0.85]], anew, anew]),
        reward=[[-1, -100, 10], [-1, 10, -100]],
        start=np.full(2, 0.5),
        discount=discount,
        states=("tiger-left", "tiger-right"),
        actions=("listen", "open-left", "open-right"),
        observations=("hear-left", "hear-right"),
    )


def cheese(discount: float = 0.95) -> FinitePOMDP:
    """McCallum's cheese maze.

        1  2  3  4  5      A mouse starts in one of the cells 1 to 10, all equally likely, and
        6     7     8      looks for the cheese in cell 11. It sees the walls of its cell and
        9    11    10      recognises the cheese. Moves never fail; a move into a wall stays in
                           the cell. Finding the cheese earns 1, and any move after it starts over.

    McCallum, Overcoming incomplete perception with utile distinction memory, ICML 1993; with
    these rewards and this start in Littman, Cassandra & Kaelbling, Learning policies for
    partially observable environments: scaling up, ICML 1995.

    Args:
        discount: Discount factor.
    """
    return maze_pomdp(CHEESE, discount, goal="cheese")


def mccallum_grid(discount: float = 0.95) -> FinitePOMDP:
    """McCallum's grid of Section 3.3, Figure 1, seen through its walls.

        1  2  3      The start is 7 or 9, the goal 8. Columns are separated by walls below the
        4  5  6      first row, so that 4, 5 and 6 look alike, as do 7, 8 and 9. Reaching the
        7  8  9      goal earns 1, and any move after it starts over.

    Furmston & Lever, A Gauss-Newton method for Markov decision processes; the maze is McCallum's,
    Reinforcement learning with selective perception and hidden state, thesis, Rochester 1995.
    The paper gives a policy that sees walls. That only the walls are observed is our choice.

    Args:
        discount: Discount factor.
    """
    return maze_pomdp(MCCALLUM, discount)


def hallway_paper(discount: float = 0.95) -> FinitePOMDP:
    """The hallway of Section 3.3, Figure 1, seen through its walls.

        1  2  3  4  5      The start is 1, the goal 5; 2, 3 and 4 look alike. Reaching the goal
                           earns 1, and any move after it starts over.

    Furmston & Lever, A Gauss-Newton method for Markov decision processes. The paper gives a
    policy that sees walls. That only the walls are observed is our choice.

    Args:
        discount: Discount factor.
    """
    return maze_pomdp(HALLWAY, discount)


def load_unload(discount: float = 0.95, n_locations: int = 8) -> FinitePOMDP:
    """The load/unload problem, which one bit of memory solves.

        U  .  .  .  .  .  .  L      A cart is loaded at L and unloaded at U, where it starts.
                                    Arriving loaded at U earns 1.

    It sees whether it is at U, at L or between them, but neither its position between them nor its
    load. Moves to the left and right never fail; a move beyond an end stays there.

    Meuleau, Kim, Kaelbling & Cassandra, Solving POMDPs by searching the space of finite policies,
    UAI 1999: 14 states, 2 actions, 3 observations. The size of the reward and the discount are our
    choice.

    Args:
        discount: Discount factor.
        n_locations: Number of locations on the road.
    """
    whole("load_unload", "n_locations", n_locations, 2)
    between = range(1, n_locations - 1)
    cells = [(0, 0), *((i, load) for i in between for load in (0, 1)), (n_locations - 1, 1)]
    transition, reward = np.zeros((2, len(cells), len(cells))), np.zeros((len(cells), 2))
    seen = np.zeros((len(cells), 3))
    for state, (place, load) in enumerate(cells):
        seen[state, 0 if place == 0 else 1 if place == n_locations - 1 else 2] = 1
        for action, move in enumerate((-1, 1)):
            reached = min(max(place + move, 0), n_locations - 1)
            loaded = {0: 0, n_locations - 1: 1}.get(reached, load)
            transition[action, state, cells.index((reached, loaded))] = 1
            reward[state, action] = reached == 0 and load
    return FinitePOMDP(
        transition,
        np.stack([seen, seen]),
        reward,
        np.eye(len(cells))[0],
        discount,
        states=("unload", *(f"{'full' if k else 'empty'}{i}" for i, k in cells[1:-1]), "load"),
        actions=("left", "right"),
        observations=("unloading", "loading", "travelling"),
    )


def maze_pomdp(maze: Maze, discount: float, goal: str | None = None) -> FinitePOMDP:
    """A maze in which the walls of the cell are observed.

    Args:
        maze: The maze.
        discount: Discount factor.
        goal: Name of a separate observation at the goal; with None the goal shows only its walls.
    """
    mdp = maze.mdp(discount)
    seen = ["-".join(("walls", *_named(walls, SIDES))) for walls in maze.walls]
    if goal is not None:
        seen[maze.goal] = goal
    names = tuple(dict.fromkeys(seen))
    observation = np.array([[float(name == each) for name in names] for each in seen])
    return FinitePOMDP(
        np.swapaxes(mdp.transition, 0, 1),
        np.stack([observation] * len(SIDES)),
        mdp.reward,
        mdp.start,
        discount,
        states=tuple(f"cell{i + 1}" for i in range(len(seen))),
        actions=SIDES,
        observations=names,
    )


HEADINGS = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
ROOMS = (2, 4, 6, 8)  # columns of the corridor with a room to the south
PLACES = (*((0, c) for c in range(11)), *((1, c) for c in ROOMS))
AROUND = ("front", "right", "back", "left")
TURNS = {  # probability of ending up turned right by 0, 1, 2 and 3 quarters
    "stay": (1.0, 0.0, 0.0, 0.0),
    "turn-right": (0.1, 0.7, 0.1, 0.1),
    "turn-around": (0.1, 0.15, 0.6, 0.15),
    "turn-left": (0.1, 0.1, 0.1, 0.7),
}
SEES_WALL = {True: 0.9, False: 0.05}  # probability of seeing a wall where there is one, or none


def hallway(discount: float = 0.95, *, once: bool = False) -> FinitePOMDP:
    """Littman's hallway.

        .  .  a  .  b  .  c  .  d  .  .      A robot faces one of four ways in a corridor of 11
              .     .     .     *            cells with four rooms, the last of which is the goal.

    The start is any place but the goal, with any heading, all equally likely. Going forward
    succeeds with probability 0.8, goes left, right or back with 0.05 each, facing that way (back:
    facing either way), and stays with 0.05; a wall stops the robot. Turning right or left succeeds
    with 0.7 and turning around with 0.6; otherwise any other heading may result. Each of four
    sensors sees a wall with probability 0.9, and one that is not there with 0.05. A robot that
    faces a room sees the landmark beside its door, and a robot in the goal sees a star. Reaching
    the goal earns 1, and any action after it starts over.

    Littman, Cassandra & Kaelbling, Learning policies for partially observable environments:
    scaling up, ICML 1995. The probabilities are those of the benchmark file hallway of
    pomdp.org, which rounds them to six digits; the order of states, actions and observations is
    the same. The names are our own.

    Args:
        discount: Discount factor.
        once: Whether the problem ends at the goal instead of starting over. Results of point-based
            solvers are reported for this variant.
    """
    n, goal = 4 * len(PLACES), len(PLACES) - 1
    actions = ("stay", "forward", *list(TURNS)[1:])
    transition, observation = np.zeros((5, n, n)), np.zeros((n, 21))
    for state, (place, heading) in enumerate(product(range(n // 4), range(4))):
        observation[state] = _sensed(place, heading, goal)
        for action, name in enumerate(actions):
            for reached, p in _moves(name, place, heading):
                transition[action, state, reached] += p
    start = np.append(np.full(n - 4, 1 / (n - 4)), np.zeros(4))
    transition[:, n - 4 :] = np.eye(n)[n - 4 :] if once else start
    if once:
        reward = transition[:, :, n - 4 :].sum(axis=2).T
        reward[n - 4 :] = 0
        return FinitePOMDP(transition, np.stack([observation] * 5), reward, start, discount)
    goals = [(ANY, ANY, state, ANY) for state in range(n - 4, n)]
    places = (*(f"corridor{i}" for i in range(11)), "room2", "room4", "room6", "goal")
    return FinitePOMDP(
        transition,
        np.stack([observation] * 5),
        None,
        start,
        discount,
        outcome_reward=OutcomeReward(np.array(goals), np.ones(4)),
        states=tuple("-".join(each) for each in product(places, HEADINGS)),
        actions=actions,
        observations=(
            *("-".join(("seen", *_named(bits, AROUND))) for bits in product((0, 1), repeat=4)),
            *(f"landmark{i + 1}" for i in range(4)),
            "star",
        ),
    )


def _named(flags: tuple[int, ...], names: tuple[str, ...]) -> list[str]:
    return [name for flag, name in zip(flags, names, strict=True) if flag] or ["none"]


def _next_to(place: int, heading: int) -> int | None:
    down, right = list(HEADINGS.values())[heading]
    row, column = PLACES[place]
    reached = (row + down, column + right)
    return PLACES.index(reached) if reached in PLACES else None


def _moves(action: str, place: int, heading: int) -> Iterator[tuple[int, float]]:
    """The states that an action may lead to, with their probabilities."""
    if action != "forward":
        for quarters, p in enumerate(TURNS[action]):
            yield 4 * place + (heading + quarters) % 4, p
        return
    right, back, left = ((heading + quarters) % 4 for quarters in (1, 2, 3))
    moves = ((heading, (heading,), 0.8), (right, (right,), 0.05), (left, (left,), 0.05))
    for direction, facing, p in (*moves, (back, (heading, back), 0.05)):
        reached = _next_to(place, direction)
        if reached is None:
            yield 4 * place + heading, p
        else:
            yield from ((4 * reached + each, p / len(facing)) for each in facing)
    yield 4 * place + heading, 0.05


def _sensed(place: int, heading: int, goal: int) -> np.ndarray:
    """The probability of each observation: 16 patterns of walls, 4 landmarks, the star."""
    row, column = PLACES[place]
    if place == goal:
        return np.eye(21)[20]
    if row == 0 and column in ROOMS and list(HEADINGS)[heading] == "south":
        return np.eye(21)[16 + ROOMS.index(column)]
    seen = [SEES_WALL[_next_to(place, (heading + i) % 4) is None] for i in range(4)]
    patterns = [
        prod(p if bit else 1 - p for bit, p in zip(bits, seen, strict=True))
        for bits in product((0, 1), repeat=4)
    ]
    return np.array([*patterns, 0, 0, 0, 0, 0])


PROBLEMS: dict[str, Callable[[], FinitePOMDP]] = {
    "cheese": cheese,
    "hallway": hallway,
    "hallway_paper": hallway_paper,
    "load_unload": load_unload,
    "mccallum_grid": mccallum_grid,
    "tiger": tiger,
}


def description(name: str) -> str:
    """The comment at the top of a problem's file: what the problem is and where it comes from."""
    lines = (PROBLEMS[name].__doc__ or "").partition("\n    Args:")[0].splitlines()
    return "\n".join(line.removeprefix("    ") for line in lines).strip()
