"""A controller that grows on a problem of 12,545 states: value, gap, time and memory by nodes.

    nice -n 10 python benchmarks/growing.py [--size 7] [--rocks 8] [--nodes 12] [--minutes 8]

The problem is `mdpnewton.domains.rocks`: a grid of 7 x 7 cells with 8 rocks that are good or bad,
12,545 states, 13 actions and 99 observations. The chain computes with one thread; times are
processor times, so that other programs may use the machine. At first one evaluation is measured by
nodes: values and visits of a random controller, from nothing.
"""

import argparse
import resource
import time

import jax

import mdpnewton as mn
from mdpnewton.domains.rocks import rocks
from mdpnewton.evaluators.controller import numbers_of


def memory():
    """The peak of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def evaluations(evaluator, sizes):
    """Seconds of one evaluation by nodes."""
    for nodes in sizes:
        policy = evaluator.controller(nodes)
        tables = numbers_of(policy, policy.random_parameters(jax.random.key(0)))
        began = time.process_time()
        closed = evaluator.chain.closed(tables)
        took = time.process_time() - began
        print(
            f"evaluation with {nodes:2} nodes: {took:.2f} s, {closed.value.size:,} unknowns, "
            f"residual {closed.residual:.0e}, {memory():.0f} MB",
            flush=True,
        )


def main():
    """Evaluations, then a controller that grows, and what it earns when it is played."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("size", 7), ("rocks", 8), ("nodes", 12), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--minutes", type=float, default=8.0)
    options = parser.parse_args()
    began = time.process_time()
    pomdp = rocks(options.size, options.rocks)
    evaluator = mn.ControllerEvaluator(pomdp)
    print(
        f"{pomdp.n_states:,} states, {pomdp.n_actions} actions, {pomdp.n_observations} "
        f"observations: built in {time.process_time() - began:.1f} s, {memory():.0f} MB",
        flush=True,
    )
    evaluations(evaluator, (1, 5, 10, 20))
    began = time.process_time()

    def tell(nodes, value, gap):
        took = time.process_time() - began
        print(
            f"{nodes:2} nodes: best value {value:.4f}, gap {gap:.4f}, {took:.0f} s, "
            f"{memory():.0f} MB",
            flush=True,
        )

    limit = 60 * options.minutes
    grown = mn.grow_controller(
        evaluator, options.nodes, seconds=limit, seed=options.seed, progress=tell
    )
    played = mn.simulated_value(pomdp, grown.policy.tables(grown.w))
    low, high = played.interval
    print(
        f"{grown.policy.nodes} nodes, value {grown.objective:.4f}, no policy exceeds "
        f"{grown.upper:.4f}; ended by {grown.ended}; played: {played.mean:.3f} "
        f"[{low:.3f}, {high:.3f}]"
    )


if __name__ == "__main__":
    main()
