"""A Ray cluster of three nodes on this machine, in a process of its own, for the tests.

It prints the address of the head and then obeys words on its standard input: `kill ID` ends a node
without grace, if it is not the head, `kill` any one, `add` begins one, `behead` ends the head
without grace. It says whether it has done so, and ends with its input.
"""

import os
import shutil
import sys
import tempfile


def main():
    place = tempfile.mkdtemp(prefix="mnt-", dir="/tmp")  # paths of sockets are limited
    os.environ["RAY_TMPDIR"] = place  # where Ray has never been there is no folder for its address
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(**node)
    print(cluster.address, flush=True)
    for line in sys.stdin:
        word, *which = line.split()
        ended = list(cluster.worker_nodes)
        if word == "kill":
            ended = [one for one in ended if not which or one.node_id in which][:1]
            for one in ended:
                cluster.remove_node(one, allow_graceful=False)
        elif word == "add":
            cluster.add_node(**node)
        elif word == "behead":
            cluster.remove_node(cluster.head_node, allow_graceful=False)
        print("done" if ended else "none", flush=True)
    cluster.shutdown()
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
