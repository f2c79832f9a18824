"""Pods and nodes as the demo finds them in etcd."""

from __future__ import annotations

from podsched.api.objects import Pod
from podsched.app.stored_state import StoredState
from support.engine_world import container, node, pod


def placed(name: str, node_name: str, cpu: str = "1", phase: str = "Running") -> Pod:
    """A pod of the ReplicaSet web on a node; node_name "" for none."""
    made = pod(name, {"nodeName": node_name, "containers": [container({"cpu": cpu})]})
    made.status.phase = phase
    made.metadata.owner_references.add(name="web")
    return made


def stored(*pods: Pod, cpu: str = "2", most: str = "3") -> StoredState:
    """These pods, and a node n1."""
    room = {"cpu": cpu, "memory": "1Gi", "pods": most}
    return StoredState(
        {f"default/{p.metadata.name}": p for p in pods}, {"n1": node("n1", allocatable=room)}
    )
