"""What is remembered of failed attempts."""

from __future__ import annotations

import pytest

from podsched.cache.objects import ClusterState
from podsched.plugins.dynamic_resources import failures
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from support.device_objects import resource_claim


def test_only_so_many_late_allocations_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_MOST", 2)
    cluster, found = ClusterState(), failures.Failures()
    claims = [resource_claim(name) for name in "abc"]
    for claim in claims:
        result = claim.status.allocation.devices.results.add(driver="d", pool="p", device="0")
        result.binding_conditions.append("attached")
        cluster.put(CLAIM, claim)
    found.note_late(claims, cluster)
    assert [found.is_unprepared(claim) for claim in claims] == [False, False, True]
