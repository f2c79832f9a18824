"""PodGroups and their pods, for tests."""

from __future__ import annotations

from typing import Any

from podsched.v1 import objects_pb2 as v1
from support.whatif_world import owned


def gang(
    name: str, minimum: int, count: int, *, topology: str = "", on: str = "", **parts: Any
) -> tuple[v1.PodGroup, list[v1.Pod]]:
    """A gang and its pods, each of one core and on node ``on`` if given."""
    group = v1.PodGroup()
    group.metadata.name, group.metadata.namespace = name, "default"
    group.metadata.uid = f"uid-{name}"
    group.spec.scheduling_policy.gang.min_count = minimum
    group.spec.priority = parts.get("priority", 0)
    if topology:
        group.spec.scheduling_constraints.topology.add(key=topology)
    members = [owned(f"{name}-{index}", on, **parts) for index in range(count)]
    for member in members:
        member.spec.scheduling_group.pod_group_name = name
    return group, members
