"""Our domains as Gymnasium environments; the dynamics themselves are in `domains`."""

import importlib.util
import sys
from types import ModuleType
from typing import Any

IDS = {
    "ball-in-cup": "mdpnewton/BallInCup-v0",
    "cartpole": "mdpnewton/CartPoleSwingUp-v0",
    "navigation": "mdpnewton/Navigation-v0",
    "tetris": "mdpnewton/Tetris-v0",
}
_ENTRIES = {
    "ball-in-cup": ("ball_in_cup:BallInCup", None),
    "cartpole": ("simulated:CartPoleSwingUp", 100),
    "navigation": ("simulated:NavigationTask", 80),
    "tetris": ("tetris:Tetris", None),
}


def register(gymnasium: ModuleType) -> None:
    """Register every environment with Gymnasium."""
    for name, (entry, steps) in _ENTRIES.items():
        gymnasium.register(
            id=IDS[name],
            entry_point=f"mdpnewton.environments.{entry}",
            max_episode_steps=steps,
        )


class _WhenImported:
    """A finder that registers the environments when Gymnasium is imported, and not before.

    Gymnasium has no plugins of its own any more, and importing it here would make every
    `import mdpnewton` wait for it.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                register(module)

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def register_when_imported() -> None:
    """Register now if Gymnasium is loaded, else as soon as it is."""
    if "gymnasium" in sys.modules:
        register(sys.modules["gymnasium"])
    elif not any(isinstance(finder, _WhenImported) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenImported())
