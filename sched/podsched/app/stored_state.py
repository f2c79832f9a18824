"""The state stored in etcd, read directly from it to check demos and failover tests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from podsched.api import quantity
from podsched.api.conditions import is_finished
from podsched.api.etcd_keys import kind_prefix
from podsched.api.kinds import KINDS
from podsched.api.objects import Node, Pod
from podsched.api.resources import pod_requests
from podsched.serve.store.protocol import Store

PODS = kind_prefix(KINDS["Pod"])
NODES = kind_prefix(KINDS["Node"])


@dataclass(slots=True)
class StoredState:
    """Pods by namespace/name and nodes by name."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)

    def overcommitted_nodes(self) -> list[str]:
        """Return the nodes whose pods exceed the allocatable amount of any resource."""
        on_node: dict[str, dict[str, Pod]] = defaultdict(dict)
        for key, pod in self.pods.items():
            if pod.spec.node_name and not is_finished(pod):
                on_node[pod.spec.node_name][key] = pod
        return [
            name
            for name, pods in on_node.items()
            if over_capacity(self.nodes.get(name, Node()), pods)
        ]


def over_capacity(node: Node, pods: Mapping[str, Pod]) -> str:
    """Return the first resource that pods overcommit on a node, as text; "" if there is none."""
    used: dict[str, Fraction] = defaultdict(Fraction)
    for pod in pods.values():
        used["pods"] += 1
        for name, amount in pod_requests(pod).items():
            used[name] += amount
    for name, total in used.items():
        room = quantity.parse(node.status.allocatable.get(name, "0"))
        if total > room:
            return f"{float(total):g} of {float(room):g} {name}"
    return ""


async def read_stored_state(store: Store) -> StoredState:
    """Read all pods and nodes. Raises ``StoreError``."""
    state = StoredState()
    for kv in (await store.range(PODS)).kvs:
        state.pods[kv.key.removeprefix(PODS)] = Pod.FromString(kv.value)
    for kv in (await store.range(NODES)).kvs:
        state.nodes[kv.key.removeprefix(NODES)] = Node.FromString(kv.value)
    return state
