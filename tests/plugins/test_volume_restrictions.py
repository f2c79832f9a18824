"""VolumeRestrictions: disks on one node, claims for one pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from podsched.framework.events import QueueingHint
from podsched.framework.plugin import FIXED_INPUTS
from podsched.framework.status import Code
from podsched.plugins.volume_restrictions import (
    REASON_DISK,
    REASON_IN_USE,
    VolumeRestrictions,
)
from podsched.v1 import objects_pb2 as v1
from support.volume_world import (
    VolumeWorld,
    claim,
    hint_on,
)

RWOP = ("ReadWriteOncePod",)


def pd(name: str = "d", *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str = "d", *, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(iqn: str = "q", *, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"iqn": iqn, "targetPortal": "p", "lun": 0, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", pool: str = "rbd", ro: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": ro}}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], bool]] = {
    "one disk written by two pods": (pd(), pd(), True),
    "one disk read by one and written by the other": (pd(read_only=True), pd(), True),
    "one disk read by both": (pd(read_only=True), pd(read_only=True), False),
    "two disks": (pd("a"), pd("b"), False),
    "an EBS volume read by both": (ebs(read_only=True), ebs(read_only=True), True),
    "disks of different kinds with one name": (pd("d"), ebs("d"), False),
    "one iSCSI name written": (iscsi(), iscsi(read_only=True), True),
    "one iSCSI name read by both": (iscsi(read_only=True), iscsi(read_only=True), False),
    "one RBD image over a common monitor": (rbd("a", "b"), rbd("b", "c"), True),
    "one RBD image over different monitors": (rbd("a"), rbd("b"), False),
    "RBD images of different pools": (rbd("a", pool="x"), rbd("a", pool="y"), False),
    "one RBD image read by both": (rbd("a", ro=True), rbd("a", ro=True), False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_node_mounts_a_disk_twice_only_where_that_is_harmless(name: str) -> None:
    mine, theirs, conflict = CASES[name]
    world = VolumeWorld({"n1": {}, "n2": {}})
    world.run(world.pod("user", volumes=[theirs]), "n1")
    said = world.filter(world.restrictions, world.pod("p", volumes=[mine]))
    assert said["n2"].ok
    assert said["n1"].ok is not conflict
    if conflict:
        assert said["n1"].reasons == (REASON_DISK,)
        assert said["n1"].code is Code.UNSCHEDULABLE


def test_pods_without_such_volumes_are_skipped() -> None:
    world = VolumeWorld({"n1": {}}, claim("a"))
    for pod in (world.pod("p"), world.pod("q", "a"), world.pod("r", volumes=[{"emptyDir": {}}])):
        assert world.pre_filter(world.restrictions, pod).status.skipped
    assert world.restrictions.inputs(world.pod("p"), world.cluster) == FIXED_INPUTS


def test_a_missing_claim_is_named_and_cannot_be_helped_by_preemption() -> None:
    world = VolumeWorld({"n1": {}})
    status = world.pre_filter(world.restrictions, world.pod("p", "gone")).status
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ('persistentvolumeclaim "gone" not found',)


def test_a_claim_for_one_pod_keeps_others_from_every_node() -> None:
    world = VolumeWorld({"n1": {}, "n2": {}}, claim("a", modes=RWOP))
    world.run(world.pod("user", "a"), "n1")
    said = world.filter(world.restrictions, world.pod("p", "a"))
    assert {s.reasons for s in said.values()} == {(REASON_IN_USE,)}
    assert {s.code for s in said.values()} == {Code.UNSCHEDULABLE}


def test_a_claim_of_that_name_in_another_namespace_is_not_in_use() -> None:
    world = VolumeWorld({"n1": {}}, claim("a", modes=RWOP), claim("a", namespace="x", modes=RWOP))
    world.run(world.pod("user", "a", namespace="x"), "n1")
    assert world.pre_filter(world.restrictions, world.pod("p", "a")).status.skipped


def test_where_the_user_of_the_claim_is_removed_the_pod_fits() -> None:
    world = VolumeWorld({"n1": {}, "n2": {}}, claim("a", modes=RWOP))
    user = world.run(world.pod("user", "a"), "n1")
    pod = world.pod("p", "a", priority=5)
    world.pre_filter(world.restrictions, pod)
    rows = np.array([world.row("n1"), world.row("n2")], dtype=np.intp)
    fork = world.cluster.columns.fork(rows)
    fork.remove_pod(0, user)
    verdicts = world.restrictions.filter(world.state, pod, fork, np.arange(2, dtype=np.intp))
    assert verdicts.passed.tolist() == [True, False]


def test_a_disk_freed_on_a_fork_makes_the_node_fit() -> None:
    world = VolumeWorld({"n1": {}})
    user = world.run(world.pod("user", volumes=[ebs()]), "n1")
    pod = world.pod("p", volumes=[ebs()])
    world.pre_filter(world.restrictions, pod)
    fork = world.cluster.columns.fork(np.array([world.row("n1")], dtype=np.intp))
    rows = np.zeros(1, dtype=np.intp)
    assert not world.restrictions.filter(world.state, pod, fork, rows).passed[0]
    fork.remove_pod(0, user)
    assert world.restrictions.filter(world.state, pod, fork, rows).passed[0]


def test_copies_of_a_pod_with_a_disk_get_in_each_others_way() -> None:
    world = VolumeWorld({"n1": {}})
    pod = world.pod("p", volumes=[pd()])
    world.pre_filter(world.restrictions, pod)
    fork = world.cluster.columns.fork(np.zeros(2, dtype=np.intp) + world.row("n1"))
    fork.add_copies(pod, np.array([0, 1], dtype=np.int64))
    verdicts = world.restrictions.filter(world.state, pod, fork, np.arange(2, dtype=np.intp))
    assert verdicts.passed.tolist() == [True, False]


def test_inputs_change_when_the_claim_is_taken_or_released() -> None:
    world = VolumeWorld({"n1": {}}, claim("a", modes=RWOP))
    pod, plugin = world.pod("p", "a"), VolumeRestrictions()
    before = plugin.inputs(pod, world.cluster)
    user = world.run(world.pod("user", "a"), "n1")
    taken = plugin.inputs(pod, world.cluster)
    world.cluster.columns.pod_table.remove(world.row("n1"), user)
    assert len({before, taken, plugin.inputs(pod, world.cluster)}) == 3


def deleted(world: VolumeWorld, *claims: str, node: str = "n1", **more: Any) -> v1.Pod:
    pod = v1.Pod()
    pod.CopyFrom(world.pod("gone", *claims, **more).pod)
    pod.spec.node_name = node
    return pod


def test_a_deleted_pod_wakes_those_whose_disk_or_claim_it_held() -> None:
    world = VolumeWorld({"n1": {}})
    pod = world.pod("p", "a", volumes=[pd("d")])
    queue, skip = QueueingHint.QUEUE, QueueingHint.SKIP
    assert hint_on(VolumeRestrictions(), pod, deleted(world, "a"), None) is queue
    assert hint_on(VolumeRestrictions(), pod, deleted(world, volumes=[pd("d")]), None) is queue
    assert hint_on(VolumeRestrictions(), pod, deleted(world, "b", volumes=[pd("e")]), None) is skip
    assert hint_on(VolumeRestrictions(), pod, deleted(world, "a", namespace="x"), None) is skip
    other = deleted(world, volumes=[pd("d")], namespace="x")
    assert hint_on(VolumeRestrictions(), pod, other, None) is queue
    assert hint_on(VolumeRestrictions(), pod, deleted(world, "a", node=""), None) is skip


def test_a_claim_that_appears_wakes_the_pod_that_mounts_it() -> None:
    world = VolumeWorld({}, claim("a"), claim("b"))
    pod = world.pod("p", "a")
    a, b = (world.cluster.get("PersistentVolumeClaim", "default", name) for name in "ab")
    assert hint_on(VolumeRestrictions(), pod, None, a) is QueueingHint.QUEUE
    assert hint_on(VolumeRestrictions(), pod, None, b) is QueueingHint.SKIP


def test_a_deleted_pod_is_shown_only_to_those_that_want_what_it_used() -> None:
    world = VolumeWorld({})
    event = world.restrictions.events_to_register()[0]
    assert event.index is not None
    index = event.index()
    index.add("the disk", world.pod("p", volumes=[pd("d")]))
    index.add("the claim", world.pod("q", "a"))
    index.add("nothing of it", world.pod("r", "b", volumes=[ebs("d")]))
    gone = deleted(world, "a", volumes=[pd("d")])
    assert set(index.candidates(gone, None) or ()) == {"the disk", "the claim"}
    other = deleted(world, "a", volumes=[pd("d")], namespace="x")
    assert set(index.candidates(other, None) or ()) == {"the disk"}
