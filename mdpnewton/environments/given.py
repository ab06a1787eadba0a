"""Environments that are given as objects: instances, classes, functions and vectors of them."""

from typing import Any

from mdpnewton.checks import told
from mdpnewton.simulators import CompiledSimulator, GymnasiumSimulator, Simulator

OF_VECTORS = ("num_envs", "vectorization_mode", "vector_kwargs")  # no business of a single one
REMEDY = (
    "pass a Gymnasium id, 'cartpole', 'navigation', an environment, its class, a function that "
    "makes one, or a simulator"
)


def given(environment: Any) -> Simulator:
    """The simulator of an environment that is no name; those of Gymnasium take unit actions.

    Args:
        environment: An environment of Gymnasium, its class, a function that makes one, a vector of
            them that says how a single one is made, or a simulator or its class.
    """
    if isinstance(environment, type):
        if issubclass(environment, CompiledSimulator):
            return environment()
    elif isinstance(environment, Simulator):
        return environment
    elif hasattr(environment, "single_action_space"):
        return GymnasiumSimulator(_Again(environment), unit_actions=True)
    elif hasattr(environment, "action_space") and hasattr(environment, "step"):
        return GymnasiumSimulator(_Itself(environment), copies=1, unit_actions=True)
    if callable(environment):
        return GymnasiumSimulator(environment, unit_actions=True)
    raise ValueError(
        f"`train(environment=...)` needs an environment, got {told(environment)}; {REMEDY}."
    )


class _Itself:
    """Makes no environment, but gives the one that there is."""

    def __init__(self, environment: Any):
        spec = getattr(environment, "spec", None)
        own = type(getattr(environment, "unwrapped", environment)).__name__
        self.__name__, self.environment = spec.id if spec else own, environment

    def __call__(self) -> Any:
        return self.environment


class _Again:
    """Makes a single environment of a vector, as its specification says."""

    def __init__(self, vector: Any):
        singles = getattr(vector, "envs", None)
        self.spec = (singles[0] if singles else vector).spec
        self.__name__ = self.spec.id if self.spec else type(vector).__name__
        if self.spec is None:
            self._refuse("has no specification of a single environment")
        self.whole = bool(singles)

    def __call__(self) -> Any:
        import gymnasium

        if self.whole:
            try:
                return gymnasium.make(self.spec)
            except ValueError as error:  # a wrapper that does not say how it was made
                self._refuse(f"cannot be made again ({' '.join(str(error).split()).rstrip('.')})")
        own = {name: one for name, one in self.spec.kwargs.items() if name not in OF_VECTORS}
        return gymnasium.make(self.spec.id, **own)

    def _refuse(self, what: str) -> None:
        raise ValueError(
            f"`train(environment=...)`: the vector environment {self.__name__!r} {what}; pass a "
            f"function that makes a single environment."
        )
