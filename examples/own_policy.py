"""Your own policy: a mixture that explores at a rate which it learns.

    python examples/own_policy.py

The program shows that the class keeps what its three flags promise, that H2 has eigenvalues of both
signs because the policy is not log-concave, and that a solver that takes their absolute values
still climbs and learns to explore less.
"""

import jax
import jax.numpy as jnp
import numpy as np

import mdpnewton as mn


class Exploring(mn.Categorical):
    """Softmax with probability 1 - e, uniform with probability e; `rate` is the logit of e."""

    n_states: int
    n_actions: int
    log_concave: bool = False
    blockwise_log_concave: bool = False
    constant_curvature: bool = False

    def logits(self, w, state):
        """Logarithms of the mixed probabilities."""
        e = jax.nn.sigmoid(w["rate"])
        return jnp.log((1 - e) * jax.nn.softmax(w["table"][state]) + e / self.n_actions)

    def initial_parameters(self):
        """A uniform softmax with exploration rate one half."""
        return {"table": jnp.zeros((self.n_states, self.n_actions)), "rate": jnp.zeros(())}


def main() -> None:
    """Check the policy, look at its curvature and search."""
    mdp = mn.garnet(seed=3, n_states=8, n_actions=3)
    policy, table = Exploring(8, 3), 3 * jax.random.normal(jax.random.key(0), (8, 3))
    w = {"table": table, "rate": jnp.asarray(0.0)}
    print("promises broken:", mn.check_policy(policy, w, jnp.arange(8), n_actions=3).problems)
    evaluator = mn.FiniteEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    spectrum = np.linalg.eigvalsh(mn.curvature(policy, w, pairs, "H2").dense())
    print(f"eigenvalues of H2: {spectrum[0]:.4f} to {spectrum[-1]:.4f}")
    method = mn.Precondition("H2", mn.Dense(absolute=True, ridge=1e-3))
    found = mn.search(evaluator, policy, w, method, mn.Armijo(), iterations=30)
    explores = float(jax.nn.sigmoid(found.w["rate"]))
    print(f"value {pairs.objective:.3f} to {found.objective:.3f}, explores {explores:.4f}")


if __name__ == "__main__":
    main()
