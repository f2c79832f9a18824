"""What etcd holds, read straight from it: the judge of demos and failover tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from podsched.api.etcd_keys import kind_prefix
from podsched.api.kinds import KINDS
from podsched.api.objects import Node, Pod
from podsched.store.protocol import Store

PODS = kind_prefix(KINDS["Pod"])
NODES = kind_prefix(KINDS["Node"])


@dataclass(slots=True)
class StoredState:
    """Pods by namespace/name and nodes by name."""

    pods: dict[str, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)


async def read_truth(store: Store) -> StoredState:
    """Read all pods and nodes. Raises StoreError."""
    truth = StoredState()
    for kv in (await store.range(PODS)).kvs:
        truth.pods[kv.key.removeprefix(PODS)] = Pod.FromString(kv.value)
    for kv in (await store.range(NODES)).kvs:
        truth.nodes[kv.key.removeprefix(NODES)] = Node.FromString(kv.value)
    return truth
