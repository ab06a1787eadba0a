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


def tables(policy, w, n_states):
    """Action probabilities of every state."""
    return np.array([policy.probabilities(w, s) for s in range(n_states)])


def ended(pi, transition, reward, stop):
    """States from which nothing is earned and from which the process never leaves such states."""
    closed = np.einsum("sa,sat->st", pi, transition)
    reach = np.linalg.matrix_power((closed > 0).astype(float) + np.eye(len(pi)), len(pi)) > 0
    leaks = ((pi > 0) & (stop > 0)).any(axis=1)
    found = []
    for s in range(len(pi)):
        later = np.flatnonzero(reach[s])
        returns = all(reach[t, s] for t in later)
        found.append(returns and not leaks[later].any())
    return np.array(found)


def stages(transition, reward, start, discount, criterion, horizon, stop, policy, w):
    """Lists of (visits, V, Q, grad V, E grad V(s')), one per time: one only without a horizon."""
    n_states = len(reward)
    pi = tables(policy, w, n_states)
    closed = np.einsum("sa,sat->st", pi, transition)
    earned = (pi * reward).sum(axis=1)
    psi = np.array([policy.scores(w, s) for s in range(n_states)])
    if criterion == "finite":
        V, slopes, found = np.zeros(n_states), np.zeros((n_states, len(w))), []
        visits = [start]
        for _ in range(horizon - 1):
            visits.append(discount * visits[-1] @ closed)
        for t in reversed(range(horizon)):
            Q = reward + discount * transition @ V
            ahead = discount * transition @ slopes
            slopes = np.einsum("sa,sa,sai->si", pi, Q, psi) + np.einsum("sa,sai->si", pi, ahead)
            V = (pi * Q).sum(axis=1)
            found.append((visits[t], V, Q, slopes, ahead))
        return pi, psi, start @ V, found[::-1]
    if criterion == "average":
        # mu (I - P) = 0 and mu 1 = 1, as one overdetermined system.
        system = np.vstack([(np.eye(n_states) - closed).T, np.ones(n_states)])
        mu = np.linalg.lstsq(system, np.eye(n_states + 1)[-1], rcond=None)[0]
        rho = mu @ earned
        inverse = np.linalg.inv(np.eye(n_states) - closed + np.outer(np.ones(n_states), mu))
        V = inverse @ (earned - rho)
        Q = reward - rho + transition @ V
        local = np.einsum("sa,sa,sai->si", pi, Q, psi)
        rise = mu @ local
        slopes = inverse @ (local - rise)
        # mu' V = 0 at every w: the slopes of mu are mu grad P times the inverse.
        turned = np.einsum("s,sa,sai,sat->it", mu, pi, psi, transition) @ inverse
        slopes = slopes - turned @ V
        return pi, psi, rho, [(mu, V, Q, slopes, transition @ slopes - rise)]
    if criterion == "total":
        gone = ended(pi, transition, reward, stop)
        transition = transition * ~gone
        closed = np.einsum("sa,sat->st", pi, transition)
        start = start * ~gone
    resolvent = np.linalg.inv(np.eye(n_states) - discount * closed)
    V = resolvent @ earned
    Q = reward + discount * transition @ V
    slopes = resolvent @ np.einsum("sa,sa,sai->si", pi, Q, psi)
    return pi, psi, start @ V, [(start @ resolvent, V, Q, slopes, discount * transition @ slopes)]


def criterion_terms(mdp, policy, w):
    """U, its gradient and every matrix, pair by pair and time by time, for any criterion."""
    n_states, n_actions = mdp.reward.shape
    matrix = mdp.transition.toarray() if hasattr(mdp.transition, "toarray") else mdp.transition
    transition = np.asarray(matrix).reshape(n_states, n_actions, n_states)
    stop = np.zeros_like(mdp.reward) if mdp.stop is None else mdp.stop
    given = transition, mdp.reward, mdp.start, mdp.discount, mdp.criterion, mdp.horizon, stop
    pi, psi, objective, every = stages(*given, policy, w)
    n, gradient = len(w), np.zeros(len(w))
    names = ["H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher"]
    found = {name: np.zeros((n, n)) for name in names}
    occupancy = np.zeros((n_states, n_actions))
    bends = [policy.hessians(w, s) for s in range(n_states)]
    for visits, V, Q, _, ahead in every:
        for s in range(n_states):
            for a in range(n_actions):
                p, outer, bend = visits[s] * pi[s, a], np.outer(psi[s, a], psi[s, a]), bends[s][a]
                occupancy[s, a] += p
                gradient += p * Q[s, a] * psi[s, a]
                found["H1"] += p * Q[s, a] * outer
                found["H2"] += p * Q[s, a] * bend
                found["A1"] += p * (Q[s, a] - V[s]) * outer
                found["A2"] += p * (Q[s, a] - V[s]) * bend
                found["V1"] += p * V[s] * outer
                found["V2"] += p * V[s] * bend
                found["fisher"] -= p * bend
                found["H12"] += p * np.outer(psi[s, a], ahead[s, a])
    found["hessian"] = found["H1"] + found["H2"] + found["H12"] + found["H12"].T
    _, V, Q, slopes, _ = every[0]
    return {
        "objective": objective,
        "gradient": gradient,
        "occupancy": occupancy,
        "value": V,
        "advantage": Q - V[:, None],
        "value_gradient": slopes,
        "terms": found,
    }
