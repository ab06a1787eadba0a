"""Naive dense versions of the paper's equations in plain NumPy: the oracle of the tests.

Loops, no cleverness, never imported by the package. A policy is given by three functions of
(w, s): the probabilities (A,), the scores (A, n) and the log-policy Hessians (A, n, n).
"""

import numpy as np


def softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


class GibbsReference:
    def __init__(self, features):
        self.features = features

    def probabilities(self, w, s):
        return softmax(self.features[s] @ w)

    def scores(self, w, s):
        pi = self.probabilities(w, s)
        return self.features[s] - pi @ self.features[s]

    def hessians(self, w, s):
        pi, psi = self.probabilities(w, s), self.scores(w, s)
        covariance = sum(pi[a] * np.outer(psi[a], psi[a]) for a in range(len(pi)))
        return np.array([-covariance] * len(pi))


class TabularReference(GibbsReference):
    def __init__(self, n_states, n_actions):
        features = np.zeros((n_states, n_actions, n_states * n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                features[s, a, s * n_actions + a] = 1
        super().__init__(features)


class QuadraticReference:
    """Logits phi'w + (psi'w)^2 / 2: their curvature depends on the action."""

    def __init__(self, linear, square):
        self.linear, self.square = linear, square

    def probabilities(self, w, s):
        return softmax(self.linear[s] @ w + 0.5 * (self.square[s] @ w) ** 2)

    def logit_gradients(self, w, s):
        return self.linear[s] + (self.square[s] @ w)[:, None] * self.square[s]

    def scores(self, w, s):
        slopes = self.logit_gradients(w, s)
        return slopes - self.probabilities(w, s) @ slopes

    def hessians(self, w, s):
        pi, psi = self.probabilities(w, s), self.scores(w, s)
        bends = np.array([np.outer(row, row) for row in self.square[s]])
        mean_bend = np.tensordot(pi, bends, axes=1)
        covariance = sum(pi[a] * np.outer(psi[a], psi[a]) for a in range(len(pi)))
        return np.array([bend - mean_bend - covariance for bend in bends])


def evaluate(transition, reward, start, discount, policy, w):
    """V, Q, A and p_gamma by eqs. (2)-(4) and (7)."""
    n_states = len(reward)
    pi = np.array([policy.probabilities(w, s) for s in range(n_states)])
    closed = np.einsum("sa,sat->st", pi, transition)
    resolvent = np.linalg.inv(np.eye(n_states) - discount * closed)
    V = resolvent @ (pi * reward).sum(axis=1)
    Q = reward + discount * transition @ V
    visits = start @ resolvent
    return {
        "objective": start @ V,
        "value": V,
        "action_value": Q,
        "advantage": Q - V[:, None],
        "occupancy": visits[:, None] * pi,
        "probabilities": pi,
        "resolvent": resolvent,
    }


def objective(transition, reward, start, discount, policy, w):
    return evaluate(transition, reward, start, discount, policy, w)["objective"]


def value_gradient(transition, reward, start, discount, policy, w):
    """Lemma 1, eq. (37)."""
    e = evaluate(transition, reward, start, discount, policy, w)
    n_states = len(start)
    local = np.array(
        [
            (e["probabilities"][s] * e["action_value"][s]) @ policy.scores(w, s)
            for s in range(n_states)
        ]
    )
    return e["resolvent"] @ local


def terms(transition, reward, start, discount, policy, w):
    """Gradient and every matrix of Theorems 3 and 4, pair by pair."""
    e = evaluate(transition, reward, start, discount, policy, w)
    slopes = value_gradient(transition, reward, start, discount, policy, w)
    n_states, n_actions = reward.shape
    n = len(w)
    found = {
        name: np.zeros((n, n))
        for name in ["H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher", "fisher_score"]
    }
    gradient = np.zeros(n)
    for s in range(n_states):
        psi, bends = policy.scores(w, s), policy.hessians(w, s)
        for a in range(n_actions):
            p, Q, V = e["occupancy"][s, a], e["action_value"][s, a], e["value"][s]
            outer = np.outer(psi[a], psi[a])
            gradient += p * Q * psi[a]
            found["H1"] += p * Q * outer
            found["H2"] += p * Q * bends[a]
            found["A1"] += p * (Q - V) * outer
            found["A2"] += p * (Q - V) * bends[a]
            found["V1"] += p * V * outer
            found["V2"] += p * V * bends[a]
            found["fisher"] -= p * bends[a]
            found["fisher_score"] += p * outer
            found["H12"] += p * np.outer(psi[a], discount * transition[s, a] @ slopes)
    found["A1+A2"] = found["A1"] + found["A2"]
    found["hessian"] = found["H1"] + found["H2"] + found["H12"] + found["H12"].T
    # Summed over all actions, J'FJ is the outer product of scores: E of the softmax Fisher matrix.
    found["generalized"], found["generalized_fisher"] = -found["V1"], found["fisher_score"]
    return gradient, found
