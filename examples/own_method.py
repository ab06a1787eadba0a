"""Two methods of your own: another row of the table, and another kind of rule.

    python examples/own_method.py

The program prints the value at every third step, on features of very different sizes. The two
methods without curvature fall behind.
"""

import jax
import jax.numpy as jnp
import numpy as np

import mdpnewton as mn


class SignAscent(mn.Method):
    """Move every parameter by the same amount, up or down as its gradient says."""

    def direct(self, at):
        """The direction, and a report that there was no solve."""
        return jax.tree.map(jnp.sign, at.gradient), mn.SolveReport("none", "solved")


METHODS = {
    "second Gauss-Newton": "second_gauss_newton",
    "halfway to H1 + H2": mn.Precondition(mn.Form("value", hessian=1.0, outer=0.5), mn.Dense()),
    "sign of the gradient": SignAscent(),
    "steepest": "steepest",
}


def main() -> None:
    """Run every method with the same problem, start and line search."""
    mdp = mn.garnet(seed=0, n_states=50, n_actions=4)
    sizes = np.logspace(-1, 1, 8)
    policy = mn.Gibbs(sizes * np.random.default_rng(0).normal(size=(50, 4, 8)))
    evaluator, w = mn.FiniteEvaluator(mdp), policy.initial_parameters()
    for name, method in METHODS.items():
        found = mn.search(evaluator, policy, w, method, mn.StrongWolfe(), iterations=13)
        values = "  ".join(f"{record.objective:.3f}" for record in found.history[::3])
        print(f"{name:22}{values}")


if __name__ == "__main__":
    main()
