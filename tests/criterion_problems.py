"""Random and adversarial chains for every criterion, shared by the tests of criteria."""

import numpy as np
from scipy import sparse

import mdpnewton as mn

S, A = 5, 3


def parts(seed, density=1.0):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(S, 0.5), size=(S, A))
    if density < 1:
        keep = rng.random((S, A, S)) < density
        keep[..., 0] |= ~keep.any(axis=2)
        transition = transition * keep + 1e-3 * keep
        transition /= transition.sum(axis=2, keepdims=True)
    return rng, transition, rng.normal(size=(S, A)), rng.dirichlet(np.ones(S))


def discounted(seed=0):
    _, transition, reward, start = parts(seed)
    return mn.FiniteMDP(transition, reward, start, 0.9)


def discounted_stopping(seed=0):
    rng, transition, reward, start = parts(seed)
    stop = 0.3 * rng.random((S, A))
    return mn.FiniteMDP(transition * (1 - stop[..., None]), reward, start, 0.9, stop=stop)


def total_stopping(seed=0):
    rng, transition, reward, start = parts(seed)
    stop = 0.3 * rng.random((S, A)) * (rng.random((S, A)) < 0.5)
    stop[0, 0] = 0.2
    transition = transition * (1 - stop[..., None])
    return mn.FiniteMDP(transition, reward, start, criterion="total", stop=stop)


def total_goal(seed=0):
    """Two goals: a state, and a pair of states that go round without any reward."""
    _, transition, reward, start = parts(seed)
    transition[2:, :, :] = 0
    transition[2, :, 2] = transition[3, :, 4] = transition[4, :, 3] = 1
    reward[2:] = 0
    return mn.FiniteMDP(transition, reward, start, criterion="total")


def total_deterministic(seed=0):
    """A corridor with a step back, from either end of which the process stops."""
    transition, stop = np.zeros((S, A, S)), np.zeros((S, A))
    for s in range(S):
        for a, move in enumerate((-1, 0, 1)):
            if 0 <= s + move < S:
                transition[s, a, s + move] = 1
            else:
                stop[s, a] = 1
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=(S, A))
    return mn.FiniteMDP(transition, reward, np.full(S, 1 / S), criterion="total", stop=stop)


def finite(seed=0, horizon=7):
    _, transition, reward, start = parts(seed)
    return mn.FiniteMDP(transition, reward, start, criterion="finite", horizon=horizon)


def finite_once(seed=0):
    return finite(seed, 1)


def finite_discounted(seed=0):
    rng, transition, reward, start = parts(seed, 0.4)
    stop = 0.3 * rng.random((S, A))
    transition = transition * (1 - stop[..., None])
    return mn.FiniteMDP(transition, reward, start, 0.8, criterion="finite", horizon=4, stop=stop)


def finite_multichain(seed=0):
    _, transition, reward, start = parts(seed)
    transition[0], transition[1] = np.eye(S)[0], np.eye(S)[1]
    return mn.FiniteMDP(transition, reward, start, criterion="finite", horizon=6)


def average(seed=0):
    _, transition, reward, start = parts(seed)
    return mn.FiniteMDP(transition, reward, start, criterion="average")


def average_periodic(seed=0):
    """Every action goes on round a ring, so that the chain has period S."""
    transition = np.zeros((S, A, S))
    for s in range(S):
        transition[s, :, (s + 1) % S] = 1
    transition[0, 0] = 0
    transition[0, 0, 1] = 1
    _, _, reward, start = parts(seed)
    return mn.FiniteMDP(transition, reward, start, criterion="average")


def average_two_periods(seed=0):
    """Two sets of states that only lead to each other, at random."""
    rng, _, reward, start = parts(seed)
    transition = np.zeros((S, A, S))
    transition[:2, :, 2:] = rng.dirichlet(np.ones(S - 2), size=(2, A))
    transition[2:, :, :2] = rng.dirichlet(np.ones(2), size=(S - 2, A))
    return mn.FiniteMDP(transition, reward, start, criterion="average")


def average_transient(seed=0):
    """Two states that are left for ever, and from which the process starts."""
    _, transition, reward, _ = parts(seed)
    transition[2:, :, :2] = 0
    transition /= transition.sum(axis=2, keepdims=True)
    start = np.array([0.5, 0.5, 0, 0, 0])
    return mn.FiniteMDP(transition, reward, start, criterion="average")


def average_absorbing(seed=0):
    """One absorbing state, whose reward is then the average."""
    _, transition, reward, start = parts(seed)
    transition[4] = np.eye(S)[4]
    return mn.FiniteMDP(transition, reward, start, criterion="average")


def average_rare(seed=0):
    """A recurrent state that most probability flows into, and that is hardly ever visited."""
    _, transition, reward, start = parts(seed)
    transition[1:] = 0
    transition[1:, :, 2], transition[1:, :, 3], transition[1:, :, 4] = 0.3, 0.3, 0.4 - 1e-9
    transition[1:, :, 1] = 1e-9
    transition[0] = np.eye(S)[1]
    return mn.FiniteMDP(transition, reward, start, criterion="average")


PROBLEMS = {
    make.__name__: make
    for make in (
        *(discounted, discounted_stopping, total_stopping, total_goal, total_deterministic),
        *(finite, finite_once, finite_discounted, finite_multichain),
        *(average, average_periodic, average_two_periods, average_transient),
        *(average_absorbing, average_rare),
    )
}


def as_sparse(mdp, linear_solver="auto"):
    """The same problem with a sparse matrix."""
    rows = sparse.csr_array(mdp.transition.reshape(-1, mdp.n_states))
    discount = mdp.discount if mdp.criterion in ("discounted", "finite") else None
    return mn.FiniteMDP(
        rows,
        mdp.reward,
        mdp.start,
        discount,
        linear_solver,
        mdp.criterion,
        mdp.horizon,
        mdp.stop,
    )
