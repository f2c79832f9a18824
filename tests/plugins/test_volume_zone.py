"""VolumeZone: zones of bound volumes against those of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.framework.events import QueueingHint
from podsched.framework.status import Code
from podsched.plugins.volume_zone import (
    REASON,
)
from support.volume_world import (
    VolumeWorld,
    claim,
    hint_on,
    storage_class,
    volume,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = "failure-domain.beta.kubernetes.io/zone"

NODES = {"a": {ZONE: "a"}, "b": {ZONE: "b"}, "beta": {BETA: "a"}, "nowhere": {"x": "y"}}

CASES: dict[str, tuple[dict[str, str], set[str]]] = {
    "a zone": ({ZONE: "a"}, {"b", "beta"}),
    "several zones": ({ZONE: "a__b"}, {"beta"}),
    "spaces around zones": ({ZONE: "a__ b"}, {"beta"}),
    "the beta label matches the one of today": ({BETA: "a"}, {"b"}),
    "a list with an empty zone is ignored": ({ZONE: "a__"}, set()),
    "a region that no node has": ({REGION: "r"}, {"a", "b", "beta"}),
    "no zone at all": ({"zone": "a"}, set()),
}


@pytest.mark.parametrize("name", CASES)
def test_nodes_of_other_zones_are_rejected(name: str) -> None:
    labels, expected = CASES[name]
    world = VolumeWorld(NODES, claim("c", volume="v"), volume("v", labels=labels))
    said = world.filter(world.zone, world.pod("p", "c"))
    rejected = {node: status for node, status in said.items() if not status.ok}
    assert set(rejected) == expected
    assert all(s.reasons == (REASON,) for s in rejected.values())
    assert all(s.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for s in rejected.values())


NO_ZONE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the claim is missing": ([], 'persistentvolumeclaim "c" not found'),
    "the volume is missing": ([claim("c", volume="v")], 'persistentvolume "v" not found'),
    "the class is missing": (
        [claim("c", storage_class="s")], 'storageclass.storage.k8s.io "s" not found',
    ),
    "there is neither volume nor class": (
        [claim("c", storage_class=None)],
        "PersistentVolumeClaim had no pv name and storageClass name",
    ),
    "the class binds at once": (
        [claim("c", storage_class="s"), storage_class("s", mode="Immediate")],
        "PersistentVolume had no name",
    ),
    "the class does not say when it binds": (
        [claim("c", storage_class="s"), storage_class("s", mode="")],
        'VolumeBindingMode not set for StorageClass "s"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_ZONE)
def test_without_a_volume_the_reason_says_what_is_missing(name: str) -> None:
    objects, reason = NO_ZONE[name]
    world = VolumeWorld({"n": {}}, *objects)
    status = world.pre_filter(world.zone, world.pod("p", "c")).status
    assert status.reasons == (reason,)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_claims_that_wait_for_their_pod_and_ephemeral_volumes_are_passed_over() -> None:
    world = VolumeWorld({"n": {}}, claim("c", storage_class="s"), storage_class("s"))
    assert world.pre_filter(world.zone, world.pod("p", "c")).status.skipped
    assert world.pre_filter(world.zone, world.pod("q", volumes=[{"ephemeral": {}}])).status.skipped


def test_events_wake_only_the_pods_that_they_can_help() -> None:
    queue, skip = QueueingHint.QUEUE, QueueingHint.SKIP
    world = VolumeWorld(
        {}, claim("c"), claim("d"), storage_class("late"), storage_class("now", mode="Immediate"),
        volume("v", labels={ZONE: "a"}), volume("w", labels={ZONE: "a"}), volume("x"),
    )  # fmt: skip
    pod = world.pod("p", "c")
    get = world.cluster.get
    late, now = get("StorageClass", "", "late"), get("StorageClass", "", "now")
    assert (hint_on(world.zone, pod, None, late), hint_on(world.zone, pod, None, now)) == (
        queue,
        skip,
    )
    c, d = (get("PersistentVolumeClaim", "default", name) for name in "cd")
    assert (hint_on(world.zone, pod, d, c), hint_on(world.zone, pod, c, d)) == (queue, skip)
    v, w, x = (get("PersistentVolume", "", name) for name in "vwx")
    assert hint_on(world.zone, pod, None, v) is queue
    assert (hint_on(world.zone, pod, x, v), hint_on(world.zone, pod, v, w)) == (queue, skip)
