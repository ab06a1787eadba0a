"""Your own small MDP: when to repair a machine that wears out.

    python examples/own_mdp.py

The program prints how the value rises to nearly its optimum, the policy that is found (run while
the machine is fresh, repair it when it is worn), and which terms of the Hessian are definite there.
"""

import numpy as np

import mdpnewton as mn

WEAR = 5  # states: 0 is new, 4 is worn out
RUN, REPAIR = 0, 1


def machine() -> mn.FiniteMDP:
    """Running wears the machine and pays less the more it is worn; a repair costs a day."""
    transition = np.zeros((WEAR, 2, WEAR))  # P(s'|s,a)
    for wear in range(WEAR):
        transition[wear, RUN, min(wear + 1, WEAR - 1)] += 0.6
        transition[wear, RUN, wear] += 0.4
        transition[wear, REPAIR, 0] = 1.0
    reward = np.stack([np.linspace(1.0, 0.0, WEAR), np.zeros(WEAR)], axis=1)  # R(s, a)
    start = np.eye(WEAR)[0]
    return mn.FiniteMDP(transition, reward, start, discount=0.95)


def main() -> None:
    """Search, then analyse the result."""
    mdp = machine()
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    evaluator, w = mn.FiniteEvaluator(mdp), policy.initial_parameters()
    found = mn.search(evaluator, policy, w, "second_gauss_newton", mn.StrongWolfe(), iterations=30)
    for record in found.history[::5]:
        print(f"iteration {record.iteration:2}: value {record.objective:.4f}")
    for wear in range(WEAR):
        logits = np.asarray(policy.logits(found.w, wear))
        repair = np.exp(logits[REPAIR]) / np.exp(logits).sum()
        print(f"wear {wear}: repair with probability {repair:.2f}")
    terms = mn.analyze(mdp, policy, found.w).spectra
    print({name: terms[name].definiteness for name in ("H1", "H2", "hessian")})


if __name__ == "__main__":
    main()
