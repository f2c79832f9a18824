"""The state stored in etcd, read directly from it to check demos and failover tests."""

from __future__ import annotations

from collections import Counter
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
        used: dict[str, Counter[str]] = {}
        for pod in self.pods.values():
            if not pod.spec.node_name or is_finished(pod):
                continue
            usage = used.setdefault(pod.spec.node_name, Counter())
            usage["pods"] += 1
            for name, amount in pod_requests(pod).items():
                usage[name] += amount  # type: ignore[assignment]
        return [name for name, usage in used.items() if self._exceeds(usage, name)]

    def _exceeds(self, usage: Counter[str], node_name: str) -> bool:
        node = self.nodes.get(node_name)
        room = node.status.allocatable if node is not None else {}
        return any(
            amount > Fraction(quantity.parse(room.get(name, "0"))) for name, amount in usage.items()
        )


async def read_stored_state(store: Store) -> StoredState:
    """Read all pods and nodes. Raises ``StoreError``."""
    state = StoredState()
    for kv in (await store.range(PODS)).kvs:
        state.pods[kv.key.removeprefix(PODS)] = Pod.FromString(kv.value)
    for kv in (await store.range(NODES)).kvs:
        state.nodes[kv.key.removeprefix(NODES)] = Node.FromString(kv.value)
    return state
