"""Your own Gymnasium environment, and a policy trained on it from samples.

    python examples/own_environment.py        (needs the extra `gym`)

The program prints how the mean return per batch rises towards zero as the policy learns to hold a
ball in the middle of a tilting plate, and the return of the greedy policy on fresh episodes.
"""

import gymnasium
import jax
import numpy as np

import mdpnewton as mn


class Plate(gymnasium.Env):
    """A ball on a plate that tilts about one axis: 60 steps of 0.05 s; being off centre costs."""

    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (2,), np.float32)  # place, velocity
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)  # tilt

    def reset(self, *, seed=None, options=None):
        """Start at rest in a random place."""
        super().reset(seed=seed)
        self.place, self.velocity = self.np_random.uniform(-1, 1), 0.0
        return self._seen(), {}

    def step(self, action):
        """Tilt the plate; the ball rolls."""
        self.velocity += 0.05 * 5.0 * float(action[0]) + 0.01 * self.np_random.normal()
        self.place += 0.05 * self.velocity
        return self._seen(), -(self.place**2), abs(self.place) > 5, False, {}

    def _seen(self):
        return np.array([self.place, self.velocity], np.float32)


def main() -> None:
    """Register the environment, train a policy and play it."""
    gymnasium.register(id="examples/Plate-v0", entry_point=Plate, max_episode_steps=60)
    training = mn.train("examples/Plate-v0", policy="linear", iterations=5, seed=0)
    for line in training.history:
        print(f"{line.transitions:6} transitions: mean return {line.mean_return:8.2f}")
    returns = training.play(jax.random.key(1), episodes=20).returns()
    print(f"greedy, on 20 fresh episodes: {returns.mean():.2f}")


if __name__ == "__main__":
    main()
