"""Random problems shared by the tests, each with its reference policy."""

import jax.numpy as jnp
import numpy as np
from reference import GibbsReference, QuadraticReference, TabularReference

import mdpnewton as mn


class QuadraticLogits(mn.Categorical):
    """A user's policy: logits quadratic in w, so that curvature depends on the action."""

    linear: jnp.ndarray
    square: jnp.ndarray
    log_concave = False
    blockwise_log_concave = False
    constant_curvature = False

    def logits(self, w, state):
        return self.linear[state] @ w + 0.5 * (self.square[state] @ w) ** 2

    def initial_parameters(self):
        return jnp.zeros(self.linear.shape[2])


def random_mdp(seed, n_states=5, n_actions=3, discount=0.9, sparse_rows=False):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    reward = rng.random((n_states, n_actions))
    start = rng.dirichlet(np.ones(n_states))
    return mn.FiniteMDP(transition, reward, start, discount)


def arrays(mdp):
    return mdp.transition, mdp.reward, mdp.start, mdp.discount


def gibbs(seed, mdp, n=4):
    rng = np.random.default_rng(1000 + seed)
    features = rng.normal(size=(mdp.n_states, mdp.n_actions, n))
    return mn.Gibbs(features), GibbsReference(features), rng.normal(size=n)


def tabular(seed, mdp):
    rng = np.random.default_rng(2000 + seed)
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    w = rng.normal(size=(mdp.n_states, mdp.n_actions))
    return policy, TabularReference(mdp.n_states, mdp.n_actions), w


def quadratic(seed, mdp, n=3):
    rng = np.random.default_rng(3000 + seed)
    linear = rng.normal(size=(mdp.n_states, mdp.n_actions, n))
    square = 0.7 * rng.normal(size=(mdp.n_states, mdp.n_actions, n))
    policy = QuadraticLogits(jnp.asarray(linear), jnp.asarray(square))
    return policy, QuadraticReference(linear, square), rng.normal(size=n)


POLICIES = {"gibbs": gibbs, "tabular": tabular, "quadratic": quadratic}
