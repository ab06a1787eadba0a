"""Our domains as Gymnasium environments; the dynamics themselves are in `domains`.

Importing this module registers them with Gymnasium. Import it before `gymnasium.make`, or write
`gymnasium.make("mdpnewton.environments:mdpnewton/Tetris-v0")`. The table can be read without
Gymnasium.
"""

from typing import NamedTuple

from mdpnewton.checks import MissingExtraError, required


class Environment(NamedTuple):
    """What is known about an environment before it is made.

    Attributes:
        id: Name of the environment in Gymnasium's registry.
        entry: Class of the environment, as `module:Class` in this folder.
        steps: Number of steps after which an episode is cut off; None if it ends by itself.
        sentence: One sentence about the task.
    """

    id: str
    entry: str
    steps: int | None
    sentence: str


ENVIRONMENTS = {
    "ball-in-cup": Environment(
        "mdpnewton/BallInCup-v0",
        "ball_in_cup:BallInCupTask",
        None,
        "Swing a ball on a string and catch it in the cup, with an arm of seven joints.",
    ),
    "cartpole": Environment(
        "mdpnewton/CartPoleSwingUp-v0",
        "simulated:CartPoleSwingUp",
        100,
        "Swing up a pole by pushing the cart that it hangs from, and keep it upright.",
    ),
    "navigation": Environment(
        "mdpnewton/Navigation-v0",
        "simulated:NavigationTask",
        80,
        "Bring a point on a line to rest at the origin by accelerating it.",
    ),
    "tetris": Environment(
        "mdpnewton/Tetris-v0",
        "tetris:Tetris",
        None,
        "Place falling pieces so that full lines vanish, for as long as the next one fits.",
    ),
}
IDS = {name: environment.id for name, environment in ENVIRONMENTS.items()}


def _register() -> None:
    try:
        gymnasium = required("gymnasium", "an environment")
    except MissingExtraError:
        return  # without Gymnasium; the modules of this folder say so when they are used
    for environment in ENVIRONMENTS.values():
        gymnasium.register(
            id=environment.id,
            entry_point=f"{__name__}.{environment.entry}",
            max_episode_steps=environment.steps,
        )


_register()
