"""A Ray cluster of several raylets on this machine's loopback, for tests: `python raylets.py '{"resource": 1}' ...`, one node each.

Prints the address; every further line of stdin, resources as JSON, adds a node and prints a line. Needs Ray; `ray start` refuses a
cluster that stays on the loopback, so the nodes are made by Ray's own helper for tests.
"""

import json
import sys

from ray.cluster_utils import Cluster

if __name__ == "__main__":
    head, *others = sys.argv[1:]
    small = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 * 2**20}
    cluster = Cluster(initialize_head=True, head_node_args={**small, "resources": json.loads(head)})
    for resources in others:
        cluster.add_node(**small, resources=json.loads(resources))
    print(cluster.address, flush=True)
    for line in sys.stdin:
        cluster.add_node(**small, resources=json.loads(line))
        print("added", flush=True)
