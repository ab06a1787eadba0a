"""A finite number of steps under one policy: values and visits change with time."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import instance, refuse
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.policy_chain import PolicyChain, Responses, closed_chain
from mdpnewton.threads import threads_for


class HorizonChain(PolicyChain):
    r"""Values and occupancies of a finite MDP over `horizon` actions of one policy.

    With h actions left, $V_h = r_\pi + \gamma P_\pi V_{h-1}$ and $V_0 = 0$; the visits go forward.
    The weights of a pair are those of the chain of states and times, summed over the times, which
    is never built: the policy does not see the time. One that does belongs to `unrolled(mdp)`.

    Args:
        mdp: The problem, of criterion "finite".
        probabilities: Action probabilities $\pi(a|s)$, shape (S, A).
    """

    def __init__(self, mdp: FiniteMDP, probabilities: np.ndarray):
        if mdp.horizon is None:
            refuse("HorizonChain", "mdp", "needs criterion 'finite'; for others use `ClosedLoop`")
        super().__init__(mdp, probabilities)
        self.horizon: int = mdp.horizon

    @cached_property
    def values(self) -> np.ndarray:
        """V at every time, shape (horizon + 1, S); zero at the end."""
        reward = (self.probabilities * self.mdp.reward).sum(axis=1)
        found = np.zeros((self.horizon + 1, self.mdp.n_states))
        for t in reversed(range(self.horizon)):
            found[t] = reward + self.mdp.discount * (self._chain @ found[t + 1])
        return found

    @cached_property
    def visited(self) -> np.ndarray:
        """Discounted probability of each state at every time, shape (horizon, S)."""
        found = np.zeros((self.horizon, self.mdp.n_states))
        found[0] = self.mdp.start
        for t in range(1, self.horizon):
            found[t] = self.mdp.discount * (self._chain.T @ found[t - 1])
        return found

    @property
    def objective(self) -> float:
        """U, eq. (1), with the sum over the horizon."""
        return float(self.mdp.start @ self.values[0])

    @property
    def value(self) -> np.ndarray:
        """V(s) at the first step, shape (S,)."""
        found: np.ndarray = self.values[0]
        return found

    @property
    def action_value(self) -> np.ndarray:
        """Q(s, a) at the first step, shape (S, A)."""
        return self._action_value(0)

    @cached_property
    def occupancy(self) -> np.ndarray:
        """Visits of each pair at all times, shape (S, A)."""
        found: np.ndarray = self.visited.sum(axis=0)[:, None] * self.probabilities
        return found

    @cached_property
    def value_weights(self) -> np.ndarray:
        """Visits times Q, summed over the times, shape (S, A)."""
        total = np.zeros_like(self.occupancy)
        for t in range(self.horizon):
            total += self.visited[t][:, None] * self._action_value(t)
        return np.asarray(total * self.probabilities)

    @cached_property
    def advantage_weights(self) -> np.ndarray:
        """Visits times A, summed over the times, shape (S, A)."""
        baseline = (self.visited * self.values[:-1]).sum(axis=0)
        found: np.ndarray = self.value_weights - baseline[:, None] * self.probabilities
        return found

    @property
    def mean_value(self) -> np.ndarray:
        """V(s) averaged over the visits of s at all times, shape (S,); 0 without visits."""
        visits = self.visited.sum(axis=0)
        total = (self.visited * self.values[:-1]).sum(axis=0)
        found: np.ndarray = np.divide(total, visits, out=np.zeros_like(total), where=visits > 0)
        return found

    def value_gradient(self, scores: np.ndarray) -> np.ndarray:
        """grad V(s) at the first step, shape (S, n), from scores of shape (S, A, n)."""
        slopes = np.zeros((self.mdp.n_states, scores.shape[2]))
        for t in reversed(range(self.horizon)):
            slopes = self._before(scores, slopes, t)
        return slopes

    def cross_term(self, scores: np.ndarray) -> np.ndarray:
        """H12, eq. (20), shape (n, n), from scores of shape (S, A, n)."""
        total = np.zeros((scores.shape[2], scores.shape[2]))
        slopes = np.zeros((self.mdp.n_states, scores.shape[2]))
        for t in reversed(range(self.horizon)):
            reached = self.flow(self.visited[t][:, None, None] * (self._probable * scores))
            total += self.mdp.discount * (reached.T @ slopes)
            slopes = self._before(scores, slopes, t)
        return total

    def cross_weights(self, along: np.ndarray) -> np.ndarray:
        """Weights of scores, (S, A), that sum to (H12 + H12')p; `along` is p'grad log pi."""
        gamma, total = self.mdp.discount, np.zeros_like(along)
        value_along = np.zeros(self.mdp.n_states)
        for t in reversed(range(self.horizon)):  # H12 p
            total += (
                self.visited[t][:, None]
                * self.probabilities
                * gamma
                * self.mdp.expected_next(value_along)
            )
            value_along = self._before(along[:, :, None], value_along[:, None], t)[:, 0]
        behind = np.zeros(self.mdp.n_states)
        for t in range(self.horizon):  # H12' p
            total += behind[:, None] * self.probabilities * self._action_value(t)
            sent = self.flow(self.visited[t][:, None] * self.probabilities * along)
            behind = gamma * (sent + self._chain.T @ behind)
        return total

    def responses(self, scores: np.ndarray) -> Responses:
        """What Definition 2 looks at: a value for every time, though the policy is the same."""
        moves = np.abs(self._probable * scores).max(axis=1)
        size = slopes = np.zeros((self.mdp.n_states, scores.shape[2]))
        every, largest = [], 0.0
        for t in reversed(range(self.horizon)):
            slopes = self._before(scores, slopes, t)
            every.append(slopes)
            gains = np.abs(self.probabilities * self._action_value(t))
            size = np.einsum("sa,sai->si", gains, np.abs(scores)) + self.mdp.discount * (
                self._chain @ size
            )
            largest = max(largest, float(size.max()))
        states = np.tile(np.arange(self.mdp.n_states), self.horizon)
        return Responses(
            states, np.concatenate(every[::-1]), np.tile(moves, (self.horizon, 1)), largest
        )

    @cached_property
    def _chain(self) -> Any:
        return closed_chain(self.mdp, self.probabilities)

    @property
    def _probable(self) -> np.ndarray:
        return self.probabilities[:, :, None]

    def _action_value(self, t: int) -> np.ndarray:
        after = self.mdp.expected_next(self.values[t + 1])
        found: np.ndarray = self.mdp.reward + self.mdp.discount * after
        return found

    def _before(self, scores: np.ndarray, slopes: np.ndarray, t: int) -> np.ndarray:
        """grad V at a time from that at the next."""
        gains = self.probabilities * self._action_value(t)
        with threads_for(2.0 * scores.size):
            local = np.einsum("sa,sai->si", gains, scores)
        found: np.ndarray = local + self.mdp.discount * (self._chain @ slopes)
        return found


def unrolled(mdp: FiniteMDP) -> FiniteMDP:
    """The problem whose states are the states of `mdp` at each time, t S + s, for all policies.

    A policy for it may depend on the time, as `TabularSoftmax(horizon * S, A)` does; one that does
    not, as a `Gibbs` policy with repeated features, is worth what it is worth on `mdp`. The process
    stops after the last action. It is sparse, with `horizon` times as many entries.

    Args:
        mdp: The problem, of criterion "finite".
    """
    instance("unrolled", "mdp", mdp, FiniteMDP, "for a POMDP pass `product_mdp(pomdp, nodes)`")
    if mdp.horizon is None:
        refuse("unrolled", "mdp", f"needs criterion 'finite', got {mdp.criterion!r}")
    horizon, (n_states, n_actions) = mdp.horizon, mdp.reward.shape
    steps = sparse.coo_array(mdp.transition_matrix)
    times = np.arange(horizon - 1)[:, None]
    rows = (steps.row + times * n_states * n_actions).ravel()
    columns = (steps.col + (times + 1) * n_states).ravel()
    size = horizon * n_states
    transition = sparse.csr_array(
        (np.tile(steps.data, horizon - 1), (rows, columns)), shape=(size * n_actions, size)
    )
    stop = np.zeros((horizon, n_states, n_actions))
    if mdp.stop is not None:
        stop[:] = mdp.stop
    stop[-1] = 1.0
    names = None
    if mdp.state_names is not None:
        names = [f"{name} at {t}" for t in range(1, horizon + 1) for name in mdp.state_names]
    return FiniteMDP(
        transition,
        np.tile(mdp.reward, (horizon, 1)),
        np.concatenate([mdp.start, np.zeros(size - n_states)]),
        None if mdp.discount == 1 else mdp.discount,  # type: ignore[arg-type]
        linear_solver="direct",
        criterion="total" if mdp.discount == 1 else "discounted",
        stop=stop.reshape(size, n_actions),
        state_names=names,
        action_names=mdp.action_names,
    )
