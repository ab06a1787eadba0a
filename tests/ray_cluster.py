"""A Ray cluster of three nodes on this machine, in a process of its own, for the tests.

It prints the address of the head and then obeys words on its standard input: `kill` ends a node
without grace, `add` begins one, `behead` ends the head without grace. It ends with its input.
"""

import os
import shutil
import sys
import tempfile

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster


def main():
    place = tempfile.mkdtemp(prefix="mnt-", dir="/tmp")  # paths of sockets are limited
    node = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={**node, "include_dashboard": False, "temp_dir": place},
    )
    for _ in range(2):
        cluster.add_node(**node)
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "kill":
            cluster.remove_node(sorted(cluster.worker_nodes, key=str)[0], allow_graceful=False)
        elif line.strip() == "add":
            cluster.add_node(**node)
        elif line.strip() == "behead":
            cluster.remove_node(cluster.head_node, allow_graceful=False)
        print("done", flush=True)
    cluster.shutdown()
    shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
