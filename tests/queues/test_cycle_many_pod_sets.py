"""Units of many pod sets: users decide how many, and the leader decides about each at once."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.queues import choices, cycle
from podsched.queues.assignment import Assignment, Mode
from podsched.queues.objects import ClusterQueue, Flavor, PodSet, ResourceGroup, Workload
from podsched.queues.quota import FlavorResource, Quota
from podsched.queues.snapshot import Snapshot

MANY = 300


def _unit(quota: int) -> tuple[Snapshot, ClusterQueue, Workload]:
    """A queue with two flavors of some CPUs each, and a unit of ``MANY`` pod sets of one CPU."""
    names = ("one", "two")
    group = ResourceGroup(frozenset({"cpu"}), names)
    quotas = {FlavorResource(name, "cpu"): Quota(1000 * quota) for name in names}
    queue = ClusterQueue("team", groups=(group,), quotas=quotas)
    sets = tuple(PodSet(f"set-{index}", 1, {"cpu": 1000}) for index in range(MANY))
    return Snapshot([queue], flavors=map(Flavor, names)), queue, Workload("unit", sets, "team")


def test_the_search_for_flavors_reads_what_each_pod_set_takes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, usage = [], Assignment.usage.fget  # type: ignore[attr-defined]

    def counted(self: Assignment) -> Any:
        read.append(len(self.pod_sets))
        return usage(self)

    monkeypatch.setattr(Assignment, "usage", property(counted))
    found, _ = cycle.nominate(*_unit(MANY // 2), cycle.Rules())
    assert found.mode is Mode.FIT
    assert sum(read) == MANY


def test_of_many_pod_sets_fewer_choices_of_flavors_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def counted(*parts: Any) -> Any:
        tried.append(parts)
        return nominate(*parts)

    nominate = cycle.nominate
    monkeypatch.setattr(choices, "nominate", counted)
    found = list(choices.fitting_by_set(*_unit(MANY), cycle.Rules()))
    assert len(tried) == len(found) == 1024 // MANY
