"""Random linear-Gaussian problems, and their moments by explicit smoothing: the oracle."""

import numpy as np

import mdpnewton as mn


def problem(seed, links=2, horizon=12, rewards=1, **options):
    """A random problem, its policy and parameters; sigma is 10 ** options["log10_sigma"]."""
    rng = np.random.default_rng(seed)
    d, k = 2 * links, links
    sigma = 10.0 ** options.pop("log10_sigma", -0.5)
    root = rng.normal(size=(d, d)) / d
    start = rng.normal(size=(d, d)) / d
    shapes = rng.normal(size=(rewards, d + k, d + k)) / (d + k)
    mdp = mn.LinearGaussianMDP(
        A=np.eye(d) + 0.1 * rng.normal(size=(d, d)),
        B=0.3 * rng.normal(size=(d, k)),
        noise=0.01 * root @ root.T,
        start_mean=rng.normal(size=d),
        start_covariance=0.1 * start @ start.T,
        reward_map=rng.normal(size=(rewards, d + k, d + k)),
        reward_target=rng.normal(size=(rewards, d + k)),
        reward_covariance=shapes @ np.swapaxes(shapes, 1, 2) + np.eye(d + k),
        horizon=horizon,
        reward_weight=rng.uniform(0.5, 2, size=rewards),
        **options,
    )
    policy = mn.AffineGaussian(k, d)
    w = policy.parameters(0.3 * rng.normal(size=(k, d)), 0.3 * rng.normal(size=k), sigma)
    return mdp, policy, w


def reference(mdp, w, sigma):
    """Moments of p Q by explicit conditioning, for every step and every later reward: O(H^2)."""
    A, B, Q = (np.asarray(x) for x in (mdp.A, mdp.B, mdp.noise))
    d, k, H, v = *B.shape, mdp.horizon, sigma**2
    K, m = np.asarray(w["mean"])[:, :-1], np.asarray(w["mean"])[:, -1]
    loop = A + B @ K
    mu, P = [np.asarray(mdp.start_mean)], [np.asarray(mdp.start_covariance)]
    for _ in range(H - 1):
        mu.append(loop @ mu[-1] + B @ m)
        P.append(loop @ P[-1] @ loop.T + v * B @ B.T + Q)
    F = np.concatenate([np.eye(d), K])
    E = np.concatenate([np.zeros((d, k)), np.eye(k)])
    logs, tilts = [], []
    schedule = np.asarray(mdp.schedule())
    for tau in range(H):
        for j in range(len(mdp.reward_weight)):
            M, y, L = (
                np.asarray(x[j]) for x in (mdp.reward_map, mdp.reward_target, mdp.reward_covariance)
            )
            nu = F @ mu[tau] + E @ m
            C = L + M @ (F @ P[tau] @ F.T + v * E @ E.T) @ M.T
            error = y - M @ nu
            log = schedule[tau] + np.log(float(mdp.reward_weight[j]))
            log += 0.5 * np.linalg.slogdet(L)[1] - 0.5 * np.linalg.slogdet(C)[1]
            logs.append(log - 0.5 * error @ np.linalg.solve(C, error))
            # Covariance of (s_t, zeta_t) with z_tau, for every t up to tau
            steps, power = [], np.eye(d)
            for t in range(tau, -1, -1):
                if t == tau:
                    cross = np.concatenate([P[t] @ F.T, E.T])
                else:
                    cross = np.concatenate([P[t] @ loop.T, B.T]) @ power.T @ F.T
                    power = power @ loop
                gain = np.linalg.solve(C, M @ cross.T).T
                steps.append((t, gain @ error, -gain @ M @ cross.T))
            tilts.append(steps)
    logs = np.array(logs)
    U = np.exp(logs - logs.max()).sum()
    share = np.exp(logs - logs.max()) / U
    mass = sum(s * len(steps) for s, steps in zip(share, tilts, strict=True))
    Sxx, g, trace = np.zeros((d + 1, d + 1)), np.zeros((k, d + 1)), 0.0
    for s, steps in zip(share, tilts, strict=True):
        for t, mean, change in steps:
            state = mu[t] + mean[:d]
            x = np.append(state, 1.0)
            second = np.outer(x, x)
            second[:d, :d] += P[t] + change[:d, :d]
            Sxx += s * second
            joint = np.outer(mean[d:], x)
            joint[:, :d] += change[d:, :d]
            g += s * joint
            trace += s * (mean[d:] @ mean[d:] + np.trace(change[d:, d:]))
    return logs.max() + np.log(U), mass, Sxx, g, trace


def close(one, other, tolerance=1e-10):
    one, other = np.asarray(one), np.asarray(other)
    assert np.abs(one - other).max() <= tolerance * np.abs(other).max()
