"""The runs of `peers.py`: a learner learns, and its policies are scored on a clock."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

import mdpnewton.environments  # noqa: F401 - registers ours

Act = Callable[[np.ndarray], np.ndarray]  # observations of several episodes to their actions

EVALUATION_SEED = 10_000


def make(environment: str, rescale: bool) -> gymnasium.Env:
    """A copy of the environment; with `rescale`, continuous actions go from -1 to 1."""
    made = gymnasium.make(environment, disable_env_checker=True)
    if rescale and isinstance(made.action_space, gymnasium.spaces.Box):
        return gymnasium.wrappers.RescaleAction(made, np.float32(-1), np.float32(1))
    return made


class Judge:
    """Scores policies on a clock of transitions, in copies of the environment of its own.

    A score is the mean return of fresh episodes with fixed seeds, the same for all learners.
    """

    def __init__(
        self, environment: str, clock: int, episodes: int, discount: float, *, rescale: bool
    ):
        self.environments = [make(environment, rescale) for _ in range(episodes)]
        self.tick, self.discount, self.due = clock, discount, 0
        self.x: list[int] = []
        self.scores: list[float] = []
        self.seconds: list[float] = []  # of this process at each score, without judging
        self.judging, self.began = 0.0, time.process_time()

    def see(self, transitions: int, act: Act, *, last: bool = False) -> None:
        """Score the policy if a tick has passed since the last one; `last` scores it anyway."""
        if (transitions < self.due and not last) or (transitions in self.x[-1:] and not last):
            return
        began = time.process_time()
        if transitions in self.x[-1:]:
            self.x.pop(), self.scores.pop(), self.seconds.pop()
        self.x.append(transitions)
        self.seconds.append(began - self.began - self.judging)
        self.scores.append(self.score(act))
        self.due = (transitions // self.tick + 1) * self.tick
        self.judging += time.process_time() - began

    def score(self, act: Act) -> float:
        """The mean return of the evaluation episodes, which run side by side."""
        seen = np.array(
            [e.reset(seed=EVALUATION_SEED + n)[0] for n, e in enumerate(self.environments)], float
        )
        returns, weight = np.zeros(len(seen)), 1.0
        running = list(range(len(seen)))
        while running:
            actions, over = act(seen), set()
            for n in running:
                seen[n], reward, terminated, truncated, _ = self.environments[n].step(actions[n])
                returns[n] += weight * float(reward)
                if terminated or truncated:
                    over.add(n)
            running = [n for n in running if n not in over]
            weight *= self.discount
        return float(returns.mean())

    def found(self) -> dict[str, Any]:
        """The curve, and the seconds of a core that learning took until each point of it."""
        curve = {"x": self.x, "score": self.scores, "seconds": self.seconds}
        return curve | {"cpu": time.process_time() - self.began - self.judging}


def ours(
    task: dict[str, Any],
    seed: int,
    budget: int,
    kind: str = "rbf",
    method: str | None = None,
    preset: dict[str, Any] | None = None,
    at_tick: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """The curve of `train` with its preset, the same for all environments.

    Some numbers of the `preset` may be given, to see what they bring. `at_tick` is called before
    each score.

    A score is that of the policy that would be played if training ended then; in the end, of the
    one that was chosen.
    """
    judge = Judge(**task, rescale=True)
    from mdpnewton.environments.names import simulator_of
    from mdpnewton.training.presets import Preset
    from mdpnewton.training.state import Training
    from mdpnewton.training.train import METHOD, begin, proceed

    simulator, numbers = simulator_of(task["environment"]), Preset(**(preset or {}))
    training = begin(simulator, kind, seed, numbers, method=method or METHOD)
    continuous = training.simulator.spaces.continuous

    def see(training: Training, last: bool = False) -> None:
        actor = training.policy.actor(training.played)
        generator = None if training.playing.greedy else np.random.default_rng(seed)

        def act(seen: np.ndarray) -> np.ndarray:
            actions = np.array([actor(one, generator)[0] for one in seen])
            return np.clip(actions, -1.0, 1.0).astype(np.float32) if continuous else actions

        judge.see(training.transitions, act, last=last)

    proceed(training, transitions=budget, callback=see)
    see(training, last=True)
    return judge.found() | {"played": training.playing.point, "greedy": training.playing.greedy}


def peer(
    task: dict[str, Any], seed: int, budget: int, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """The curve of a learner of Stable-Baselines3 or sb3-contrib with deterministic actions."""
    import torch
    from sb3_contrib import TRPO
    from stable_baselines3 import PPO, SAC
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="You have specified a mini-batch size")
    settings = dict(options)
    rescale = settings.pop("rescale", False)
    normalize = settings.pop("normalize", False)
    copies = settings.pop("copies", 1)
    judge = Judge(**task, rescale=rescale)
    environment: Any = DummyVecEnv([lambda: make(task["environment"], rescale)] * copies)
    if normalize:
        environment = VecNormalize(environment, gamma=settings.get("gamma", 0.99))

    def act(seen: np.ndarray) -> np.ndarray:
        seen = seen.astype(np.float32)
        seen = environment.normalize_obs(seen) if normalize else seen
        return model.predict(seen, deterministic=True)[0]

    class Watch(BaseCallback):
        def _on_rollout_start(self) -> None:  # right after an update
            judge.see(self.num_timesteps, act)

        def _on_step(self) -> bool:
            return True

    learner = {"PPO": PPO, "TRPO": TRPO, "SAC": SAC}[name]
    model = learner("MlpPolicy", environment, seed=seed, device="cpu", **_settings(settings))
    model.learn(budget, callback=Watch())
    judge.see(model.num_timesteps, act, last=True)
    return judge.found()


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Options as Stable-Baselines3 takes them: schedules and networks are written as data."""
    import torch

    found = {name: _schedule(value) for name, value in given.items() if name != "policy"}
    policy = dict(given.get("policy", {}))
    if "activation" in policy:
        policy["activation_fn"] = getattr(torch.nn, policy.pop("activation"))
    if "net" in policy:
        layers = policy.pop("net")
        policy["net_arch"] = {"pi": layers, "vf": layers}
    return found | ({"policy_kwargs": policy} if policy else {})


def _schedule(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("lin_"):
        first = float(value.removeprefix("lin_"))
        return lambda left: left * first
    return value


def nothing(task: dict[str, Any]) -> dict[str, Any]:
    """The score of doing nothing: action 0, or the nearest to it in the box; random choices."""
    judge = Judge(**task, rescale=False)
    space = judge.environments[0].action_space
    if isinstance(space, gymnasium.spaces.Box):
        still = np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
        return {"score": judge.score(lambda seen: np.array([still] * len(seen)))}
    space.seed(EVALUATION_SEED)
    return {"score": judge.score(lambda seen: np.array([space.sample() for _ in seen]))}
