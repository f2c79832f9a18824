"""Conditions of groups that were written are known until the cache shows them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsched.api.conditions import set_condition
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.term.writes import group_conditions
from podsched.term.writes.group_conditions import GroupConditions
from podsched.v1 import objects_pb2 as v1

RESERVED = "True", "Reserved", "reserved"


class Groups:
    """The groups in a cache, and their conditions."""

    def __init__(self) -> None:
        self.cluster = ClusterState()
        self.conditions = GroupConditions(self.cluster, wall=lambda: 1_800_000_000.0)

    def create(self, name: str) -> PodGroup:
        stored = v1.PodGroup()
        stored.metadata.name, stored.metadata.namespace = name, "default"
        stored.metadata.uid = f"uid-{name}"
        self.cluster.put("PodGroup", stored)
        group = pod_group(self.cluster, f"default/{name}")
        assert group is not None
        return group

    def write(self, group: PodGroup) -> None:
        """Write a condition, which is answered at once."""
        made = self.conditions.want(group, {"Custom": RESERVED})
        assert made is not None
        self.conditions.answered(group.uid, made[1])

    def show(self, group: PodGroup) -> None:
        """Let the cache show the condition."""
        shown = v1.PodGroup()
        shown.metadata.name, shown.metadata.namespace = group.key.split("/")[1], "default"
        shown.metadata.uid = group.uid
        set_condition(shown.status, "Custom", *RESERVED, shown.metadata.creation_timestamp)
        self.cluster.put("PodGroup", shown)


@pytest.mark.parametrize("left", ["seen", "gone"])
def test_what_the_cache_shows_of_many_groups_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    monkeypatch.setattr(group_conditions, "_MOST_UNSEEN", 5)
    groups = Groups()
    for number in range(20):
        group = groups.create(f"g{number}")
        groups.write(group)
        if left == "gone":
            groups.cluster.delete("PodGroup", "default", f"g{number}")
        else:
            groups.show(group)
    assert len(groups.conditions._unseen) <= 6


def test_a_condition_counts_from_its_write_on_and_not_for_a_group_that_took_the_name() -> None:
    groups = Groups()
    group = groups.create("g")
    assert groups.conditions.current(group) == {}
    groups.write(group)
    assert groups.conditions.current(group) == {"Custom": RESERVED}
    groups.show(group)
    assert groups.conditions.current(group) == {"Custom": RESERVED}
    assert groups.conditions.current(replace(group, uid="uid-other")) is None
