"""A controller with memory for the tiger behind one of two doors.

    python examples/pomdp.py

The program prints the final value of every random start, some of which end in poorer optima, and
what the best controller does in each of its five nodes: it listens until it has heard the tiger on
one side twice more than on the other, then opens the other door.
"""

import numpy as np

import mdpnewton as mn

NODES, STARTS = 5, 4


def main() -> None:
    """Search from several starts at once and show the best controller."""
    pomdp = mn.load_pomdp("tiger")
    evaluator = mn.ControllerEvaluator(pomdp, offset=100.0)
    policy = evaluator.controller(NODES)
    starts = mn.random_starts(policy, seed=0, starts=STARTS)
    found = mn.search_controllers(evaluator, policy, starts, iterations=100)
    print("values of the starts:", np.round(found.objective[:, -1], 2))
    tables = policy.tables(found.best_w)
    for node in range(NODES):
        for number, heard in enumerate(pomdp.observations):
            after = int(np.argmax(tables.transition[node, number]))
            action = pomdp.actions[int(np.argmax(tables.action[after, number]))]
            print(f"node {node}, {heard:10} -> node {after}, {action}")


if __name__ == "__main__":
    main()
