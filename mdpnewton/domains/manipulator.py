"""The N-link manipulator of Section 6.4, made linear by feedback: reach a pose and stay there."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array

from mdpnewton.checks import flag, number, whole
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies import AffineGaussian

NOISE, START_SPREAD = 0.02, 0.1  # standard deviations of the process and of the first state
WIDTHS = (0.3, 1.0, 3.0)  # widths of the reward in angle, velocity and acceleration
FIRST_PARAMETERS, FIRST_SIGMA = 0.1, 0.1


@dataclass(frozen=True)
class Manipulator:
    """A problem with a policy and its initial parameters.

    Attributes:
        mdp: The linear model. States are angles and velocities, actions are accelerations.
        policy: The policy N(K s + m, sigma^2 I).
        w: The initial parameters.
        start: The initial angles.
        target: The angles to reach.
        dt: Seconds per time step.
    """

    mdp: LinearGaussianMDP
    policy: AffineGaussian
    w: dict[str, Array]
    start: np.ndarray
    target: np.ndarray
    dt: float


def manipulator(
    seed: int, links: int = 3, horizon: int = 100, dt: float = 0.1, *, at_end: bool = False
) -> Manipulator:
    """The problem that belongs to a seed.

    Paper: gives no horizon, time step, noise, width of the reward or initial parameters. Here:
    numbers for which its description holds, a plateau at the start and poor scaling.

    Args:
        seed: Random seed of the start, the target and the initial parameters.
        links: Number of links, N.
        horizon: Number of time steps, H.
        dt: Seconds per time step.
        at_end: Whether only the last step is rewarded.
    """
    call = "manipulator"
    whole(call, "seed", seed)
    whole(call, "links", links, 1)
    whole(call, "horizon", horizon, 1)
    number(call, "dt", dt, above=0)
    flag(call, "at_end", at_end)
    rng = np.random.default_rng(seed)
    start, target = rng.uniform(-np.pi, np.pi, size=(2, links))
    rng.normal(size=links)  # the published configuration makes this draw and does not use it
    gain = FIRST_PARAMETERS * rng.normal(size=(links, 2 * links))
    offset = FIRST_PARAMETERS * rng.normal(size=links)
    one, none = np.eye(links), np.zeros((links, links))
    still = np.zeros(links)
    mdp = LinearGaussianMDP(
        A=np.block([[one, dt * one], [none, one]]),
        B=np.concatenate([dt**2 / 2 * one, dt * one]),
        noise=NOISE**2 * np.eye(2 * links),
        start_mean=np.concatenate([start, still]),
        start_covariance=START_SPREAD**2 * np.eye(2 * links),
        reward_map=np.eye(3 * links),
        reward_target=np.concatenate([target, still, still]),
        reward_covariance=np.diag(np.repeat(WIDTHS, links) ** 2),
        horizon=horizon,
        at_end=at_end,
    )
    policy = AffineGaussian(links, 2 * links)
    return Manipulator(mdp, policy, policy.parameters(gain, offset, FIRST_SIGMA), start, target, dt)
