"""Time and memory of a model that comes as a function, and of its average reward.

    python benchmarks/from_function.py

A queue of two lines: a state is how many wait in each, an action is whom to serve. Every size runs
in a process of its own, because memory is measured as the peak of the process. The exponent is that
of the last two sizes.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np

import mdpnewton as mn

SIDES = (140, 450, 1420)  # about half of the pairs of lengths are reached


def queue(side):
    """A step of two lines of at most `side - 1` each."""

    def step(state, action):
        first, second = state
        cost = -(first + 2 * second) / side
        if action == 0:
            first = max(first - 1, 0)
        else:
            second = max(second - 1, 0)
        more, most = (min(first + 1, side - 1), second), (first, min(second + 1, side - 1))
        stays = (0.25, (first, second), cost, False)
        return (0.45, more, cost, False), (0.3, most, cost, False), stays

    return step


def measured(side):
    """Seconds, peak memory in MB, and the average reward of a policy that serves both alike."""
    mn.FiniteMDP.from_function([(0, 0)], [0, 1], queue(3), discount=0.9)  # imports
    began = time.perf_counter()
    mdp = mn.FiniteMDP.from_function([(0, 0)], [0, 1], queue(side), criterion="average")
    built, memory = time.perf_counter() - began, _memory()
    found = {"states": mdp.n_states, "pairs": mdp.reward.size, "seconds": built, "MB": memory}
    if mdp.n_states <= 150_000:
        began = time.perf_counter()
        chain = mn.policy_chain(mdp, np.full(mdp.reward.shape, 0.5))
        found |= {"average": chain.objective, "values": float(np.ptp(chain.value))}
        found |= {"solved in": time.perf_counter() - began, "MB solved": _memory()}
        bellman = (0.5 * chain.action_value).sum(axis=1) - chain.value
        found["residual"] = float(np.abs(bellman).max() / np.abs(chain.value).max())
    return found


def _memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main():
    """All sizes, and the exponent of the time in the number of states."""
    rows = []
    for side in SIDES:
        command = [sys.executable, __file__, str(side)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    (small, large) = rows[-2:]
    ratio = np.log(large["states"] / small["states"])
    print("exponent of the time:", round(np.log(large["seconds"] / small["seconds"]) / ratio, 3))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(int(sys.argv[1]))))
    else:
        main()
