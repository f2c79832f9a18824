"""NodeVolumeLimits: volumes counted once each against the limits of CSINodes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.framework.events import QueueingHint
from podsched.framework.plugin import FIXED_INPUTS
from podsched.framework.status import Code
from podsched.plugins.node_volume_limits.attachable_volumes import AttachableVolumes
from podsched.plugins.node_volume_limits.plugin import (
    REASON,
    NodeVolumeLimits,
)
from podsched.v1 import objects_pb2 as v1
from support.examples import examples
from support.volume_world import (
    Manifest,
    VolumeWorld,
    attachment,
    claim,
    csi_node,
    hint_on,
    storage_class,
    volume,
)

EBS, GCE = "ebs.csi.aws.com", "pd.csi.storage.gke.io"
EBS_VOLUME: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
LIMITS = NodeVolumeLimits(None, VolumeWorld({}))


def bound(*names: str, driver: str = EBS) -> list[Manifest]:
    """Claims bound to CSI volumes of the same names."""
    claims = [claim(name, volume=f"pv-{name}") for name in names]
    source = {"driver": driver}
    return claims + [
        volume(f"pv-{name}", csi={**source, "volumeHandle": f"h-{name}"}) for name in names
    ]


def limited(limit: int, *objects: Manifest, driver: str = EBS) -> VolumeWorld:
    """Node "n" with a limit, and node "free" without a CSINode."""
    return VolumeWorld({"n": {}, "free": {}}, csi_node("n", {driver: limit}), *objects)


def test_a_node_at_its_limit_is_rejected_and_preemption_may_help() -> None:
    world = limited(1, *bound("a", "b"))
    world.run(world.pod("user", "a"), "n")
    said = world.filter(world.limits, world.pod("p", "b"))
    assert (said["n"].code, said["n"].reasons) == (Code.UNSCHEDULABLE, (REASON,))
    assert said["free"].ok


def test_a_volume_that_is_there_already_counts_once() -> None:
    world = limited(1, *bound("a"))
    world.run(world.pod("user", "a"), "n")
    assert world.filter(world.limits, world.pod("p", "a"))["n"].ok


def test_two_claims_of_one_pod_need_two_places() -> None:
    world = limited(1, *bound("a", "b"))
    assert not world.filter(world.limits, world.pod("p", "a", "b"))["n"].ok
    assert world.filter(world.limits, world.pod("q", "a", "a"))["n"].ok


def test_drivers_have_limits_of_their_own() -> None:
    world = limited(1, *bound("a", "b"), *bound("g", driver=GCE))
    world.run(world.pod("user", "a"), "n")
    assert world.filter(world.limits, world.pod("p", "g"))["n"].ok


def test_attachments_count_where_no_pod_of_the_node_has_the_volume() -> None:
    world = limited(2, *bound("a", "b", "c"), attachment("va", "n", "pv-a", EBS))
    world.run(world.pod("user", "a"), "n")
    assert world.filter(world.limits, world.pod("p", "b"))["n"].ok
    world.put(attachment("vc", "n", "pv-c", EBS), attachment("vf", "free", "pv-b", EBS))
    assert not world.filter(world.limits, world.pod("p", "b"))["n"].ok


def test_an_attached_volume_of_the_pod_itself_counts_twice_as_in_kube_scheduler() -> None:
    world = limited(1, *bound("a"), attachment("va", "n", "pv-a", EBS))
    assert not world.filter(world.limits, world.pod("p", "a"))["n"].ok


def test_attachments_of_volumes_that_are_gone_or_not_csi_do_not_count() -> None:
    world = limited(
        1, *bound("a"), volume("local"),
        attachment("v1", "n", "gone", EBS), attachment("v2", "n", "local", EBS),
    )  # fmt: skip
    assert world.filter(world.limits, world.pod("p", "a"))["n"].ok


def test_unbound_claims_count_through_their_class() -> None:
    world = limited(
        1, claim("a", storage_class="s"), claim("b", storage_class="s"), storage_class("s", EBS)
    )
    world.run(world.pod("user", "a"), "n")
    assert not world.filter(world.limits, world.pod("p", "b"))["n"].ok
    assert world.filter(world.limits, world.pod("q", "a"))["n"].ok


def test_claims_of_classes_that_are_missing_do_not_count() -> None:
    world = limited(
        1, claim("a", storage_class="gone"), claim("b", storage_class=None), *bound("c")
    )
    world.run(world.pod("user", "a", "b"), "n")
    assert world.filter(world.limits, world.pod("p", "c"))["n"].ok


def test_in_tree_volumes_count_for_the_driver_they_were_migrated_to() -> None:
    world = limited(
        2, *bound("a"), claim("t", volume="pv-t"), volume("pv-t", **EBS_VOLUME),
        claim("u", storage_class="s"), storage_class("s", "kubernetes.io/aws-ebs"),
    )  # fmt: skip
    world.run(world.pod("user", "t", "u"), "n")
    assert not world.filter(world.limits, world.pod("p", "a"))["n"].ok
    # Inline, the very volume that the claim "t" stands for.
    assert world.filter(world.limits, world.pod("q", volumes=[EBS_VOLUME]))["n"].ok
    other = {"awsElasticBlockStore": {"volumeID": "vol-2"}}
    assert not world.filter(world.limits, world.pod("r", volumes=[other]))["n"].ok


def test_migrated_volumes_are_none_of_a_csi_driver_on_nodes_without_a_csi_node() -> None:
    world = limited(1, claim("t", volume="pv-t"), volume("pv-t", **EBS_VOLUME), *bound("a"))
    pod = world.pod("p", "t", "a", volumes=[EBS_VOLUME])
    resolved = AttachableVolumes(world.cluster)
    assert set(resolved.of(pod, csi_node=False, new=True)) == {f"{EBS}/h-a"}
    assert set(resolved.of(pod, csi_node=True, new=True)) == {f"{EBS}/h-a", f"{EBS}/vol-1"}


def test_a_missing_claim_of_the_pod_is_unresolvable_and_of_others_not_counted() -> None:
    world = limited(1, *bound("a"))
    world.run(world.pod("user", "gone"), "n")
    assert world.filter(world.limits, world.pod("q", "a"))["n"].ok
    said = world.filter(world.limits, world.pod("p", "gone"))["n"]
    assert said.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert said.reasons == ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)


def test_an_ephemeral_claim_of_another_pod_is_an_error_where_limits_are_checked() -> None:
    world = limited(9, *bound("a"), claim("user-v0"))
    world.run(world.pod("user", volumes=[{"ephemeral": {}}]), "n")
    said = world.filter(world.limits, world.pod("p", "a"))
    assert said["free"].ok
    assert said["n"].code is Code.ERROR
    assert said["n"].reasons == (
        "PVC default/user-v0 was not created for pod default/user (pod is not owner)",
    )


def test_pods_without_attachable_volumes_are_skipped() -> None:
    world = limited(0)
    kinds: list[list[Manifest]] = [[], [{"emptyDir": {}}], [{"iscsi": {"iqn": "q"}}]]
    for volumes in kinds:
        pod = world.pod("p", volumes=volumes)
        assert world.pre_filter(world.limits, pod).status.skipped
        assert world.limits.inputs(pod, world.cluster) == FIXED_INPUTS


def test_a_volume_freed_on_a_fork_makes_room() -> None:
    world = limited(1, *bound("a", "b"))
    user = world.run(world.pod("user", "a"), "n")
    pod = world.pod("p", "b", priority=5)
    world.pre_filter(world.limits, pod)
    fork = world.cluster.columns.fork(np.array([world.row("n")] * 2, dtype=np.intp))
    fork.remove_pod(0, user)
    verdicts = world.limits.filter(world.state, pod, fork, np.arange(2, dtype=np.intp))
    assert verdicts.passed.tolist() == [True, False]


def test_the_pickled_state_gives_the_same_verdicts() -> None:
    world = limited(2, *bound("a", "b", "c"), attachment("va", "n", "pv-c", EBS))
    world.run(world.pod("user", "a"), "n")
    pod = world.pod("p", "b")
    world.pre_filter(world.limits, pod)
    elsewhere = pickle.loads(pickle.dumps(world.state))
    rows = np.flatnonzero(world.cluster.columns.alive)
    here = world.limits.filter(world.state, pod, world.cluster.columns, rows)
    there = NodeVolumeLimits(None, world).filter(elsewhere, pod, world.cluster.columns, rows)
    assert here.bits.tolist() == there.bits.tolist()
    assert not here.passed.all()


@examples(80)
@given(st.data())
def test_counting_agrees_with_sets_of_volumes(data: st.DataObject) -> None:
    names = [f"c{i}" for i in range(6)]
    drivers = {name: data.draw(st.sampled_from((EBS, GCE))) for name in names}
    objects = [o for name in names for o in bound(name, driver=drivers[name])]
    limits = {node: data.draw(st.integers(0, 3)) for node in ("a", "b")}
    objects += [csi_node(node, {EBS: limit}) for node, limit in limits.items()]
    world = VolumeWorld({"a": {}, "b": {}, "c": {}}, *objects)
    there: dict[str, set[str]] = {"a": set(), "b": set(), "c": set()}
    for number in range(data.draw(st.integers(0, 5))):
        mounted = data.draw(st.lists(st.sampled_from(names), max_size=3))
        node = data.draw(st.sampled_from("abc"))
        world.run(world.pod(f"u{number}", *mounted), node)
        there[node] |= {name for name in mounted if drivers[name] == EBS}
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    said = world.filter(world.limits, world.pod("p", *wanted))
    for node, status in said.items():
        new = {name for name in wanted if drivers[name] == EBS} - there[node]
        full = bool(new) and node in limits and len(there[node] | new) > limits[node]
        assert status.ok is not full


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def of(world: VolumeWorld, kind: str, name: str, namespace: str = "") -> Any:
    return world.cluster.get(kind, namespace, name)


@pytest.mark.parametrize(("before", "after", "hint"), [(1, 2, QUEUE), (2, 2, SKIP), (2, 1, SKIP)])
def test_a_csi_node_wakes_pods_when_it_allows_more(
    before: int, after: int, hint: QueueingHint
) -> None:
    old = VolumeWorld({}, csi_node("n", {EBS: before, GCE: 3}))
    new = VolumeWorld({}, csi_node("n", {EBS: after, GCE: 3}))
    pod = new.pod("p", "a")
    assert hint_on(LIMITS, pod, of(old, "CSINode", "n"), of(new, "CSINode", "n")) is hint


def test_a_csi_node_wakes_pods_when_a_limit_is_gone() -> None:
    world = VolumeWorld({}, csi_node("n", {EBS: 1}), csi_node("other", {}))
    pod = world.pod("p", "a")
    limited, other = (of(world, "CSINode", name) for name in ("n", "other"))
    assert hint_on(LIMITS, pod, limited, other) is QUEUE
    assert hint_on(LIMITS, pod, limited, None) is QUEUE
    assert hint_on(LIMITS, pod, other, None) is SKIP


def test_a_deleted_pod_wakes_others_when_it_had_volumes_on_a_node() -> None:
    world = VolumeWorld({})
    pod = world.pod("p", "a")

    def gone(node: str, *claims: str, **more: Any) -> v1.Pod:
        message = v1.Pod()
        message.CopyFrom(world.pod("gone", *claims, **more).pod)
        message.spec.node_name = node
        return message

    assert hint_on(LIMITS, pod, gone("n", "b"), None) is QUEUE
    assert hint_on(LIMITS, pod, gone("n", volumes=[EBS_VOLUME]), None) is QUEUE
    assert hint_on(LIMITS, pod, gone("n", volumes=[{"ephemeral": {}}]), None) is QUEUE
    assert hint_on(LIMITS, pod, gone("n", volumes=[{"emptyDir": {}}]), None) is SKIP
    assert hint_on(LIMITS, pod, gone("", "b"), None) is SKIP


def test_claims_and_detached_volumes_wake_the_pods_that_wait_for_them() -> None:
    world = VolumeWorld({}, claim("a"), claim("p-v0"), attachment("va", "n", "pv", EBS))
    detached = of(world, "VolumeAttachment", "va")
    a, own = (of(world, "PersistentVolumeClaim", name, "default") for name in ("a", "p-v0"))
    mounting, ephemeral = world.pod("m", "a"), world.pod("p", volumes=[{"ephemeral": {}}])
    inline, other = world.pod("i", volumes=[EBS_VOLUME]), world.pod("o", volumes=[{"rbd": {}}])
    assert hint_on(LIMITS, mounting, None, a) is QUEUE
    assert hint_on(LIMITS, ephemeral, None, own) is QUEUE
    assert hint_on(LIMITS, mounting, None, own) is SKIP
    for pod, hint in ((mounting, QUEUE), (ephemeral, QUEUE), (inline, QUEUE), (other, SKIP)):
        assert hint_on(LIMITS, pod, detached, None) is hint
