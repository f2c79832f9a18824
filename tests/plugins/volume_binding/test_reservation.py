"""VolumeBinding: what Reserve assumes, what PreBind writes and what it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.config.plugin_args import VolumeBindingArgs
from podsched.framework.events import QueueingHint, Resource
from podsched.framework.plugin import PreBindPlan
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status
from podsched.plugins.volume_binding.plugin import VolumeBinding
from podsched.v1 import objects_pb2 as v1
from support.volume_world import (
    BIND_COMPLETED,
    SELECTED_NODE,
    Manifest,
    VolumeWorld,
    claim,
    csi_node,
    hint_on,
    storage_class,
    volume,
)

NODES = {"a": {"zone": "a"}, "b": {"zone": "b"}}
BINDING = VolumeWorld({}).binding


def world(*objects: Manifest) -> VolumeWorld:
    classes = storage_class("local"), storage_class("dyn", "csi.example.com")
    return VolumeWorld(NODES, *classes, *objects)


def reserve(made: VolumeWorld, pod: PodInfo, node: str) -> Status:
    assert node not in made.rejected(made.binding, pod)
    return made.binding.reserve(made.state, pod, node)


def plan(made: VolumeWorld, pod: PodInfo, node: str) -> PreBindPlan:
    assert made.binding.pre_bind_pre_flight(made.state, pod, node).ok
    return made.binding.pre_bind(made.state, pod, node, made.cluster)


def asked(made: VolumeWorld, plan: PreBindPlan) -> Status:
    assert plan.wait is not None
    return plan.wait(made.cluster)


def bind(made: VolumeWorld, name: str, volume_name: str, **changes: Any) -> None:
    """What the volume controller does in the end."""
    known = made.cluster.get("PersistentVolumeClaim", "default", name)
    assert isinstance(known, v1.PersistentVolumeClaim)
    bound = v1.PersistentVolumeClaim()
    bound.CopyFrom(known)
    bound.spec.volume_name = volume_name
    bound.metadata.annotations[BIND_COMPLETED] = "yes"
    made.cluster.put("PersistentVolumeClaim", bound)


# ---------------------------------------------------------------------------------- static


def test_a_volume_that_one_profile_has_reserved_is_not_given_to_a_pod_of_another() -> None:
    made = world(claim("c"), claim("d"), volume("v", zones=["a"]))
    others = VolumeBinding(VolumeBindingArgs(), made)
    first, second = made.pod("p", "c"), made.pod("q", "d")
    assert set(made.rejected(others, second)) == {"b"}
    assert reserve(made, first, "a").ok
    assert set(made.rejected(others, second)) == {"a", "b"}
    made.binding.unreserve(made.state, first, "a")
    assert set(made.rejected(others, second)) == {"b"}


def test_a_reserved_volume_is_not_given_to_the_next_pod() -> None:
    made = world(claim("c"), claim("d"), volume("v", zones=["a"]), volume("w", zones=["a"]))
    first, second = made.pod("p", "c"), made.pod("q", "d")
    before = made.binding.inputs(second, made.cluster)
    assert reserve(made, first, "a").ok
    assert made.binding.inputs(second, made.cluster) != before
    assert reserve(made, second, "a").ok
    third = made.pod("r", "e")
    made.put(claim("e"))
    assert set(made.rejected(made.binding, third)) == {"a", "b"}


def test_unreserve_gives_the_volume_back() -> None:
    made = world(claim("c"), claim("d"), volume("v"))
    first, second = made.pod("p", "c"), made.pod("q", "d")
    reserve(made, first, "a")
    assert set(made.rejected(made.binding, second)) == {"a", "b"}
    made.binding.unreserve(made.state, first, "a")
    assert made.rejected(made.binding, second) == {}
    made.binding.unreserve(made.state, first, "a")
    assert made.binding.pre_bind_pre_flight(made.state, first, "a").skipped


def test_the_smallest_volume_of_the_node_is_bound_to_the_claim() -> None:
    made = world(
        claim("c", size="3Gi"), volume("v10", size="10Gi"), volume("v1"), volume("v5", size="5Gi"),
        volume("v4", size="4Gi", zones=["b"]),
    )  # fmt: skip
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    (patch,) = plan(made, pod, "a").patches
    assert (patch.kind, patch.namespace, patch.name) == ("PersistentVolume", "", "v5")
    assert patch.resource_version == "5"
    assert patch.merge_patch == {
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {
            "claimRef": {
                "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default",
                "name": "c", "uid": "uid-c", "resourceVersion": "7",
            }
        },
    }  # fmt: skip


def test_the_smallest_claim_of_a_pod_chooses_first() -> None:
    made = world(
        claim("big", size="5Gi"), claim("small"), volume("v5", size="5Gi"), volume("v9", size="9Gi")
    )
    pod = made.pod("p", "big", "small")
    reserve(made, pod, "a")
    refs = {p.name: p.merge_patch["spec"]["claimRef"] for p in plan(made, pod, "a").patches}
    assert {name: ref["name"] for name, ref in refs.items()} == {"v5": "small", "v9": "big"}


def test_a_static_binding_is_done_when_the_volume_controller_has_bound_the_claim() -> None:
    made = world(claim("c"), volume("v"))
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    todo = plan(made, pod, "a")
    assert todo.timeout == 600.0
    assert asked(made, todo).code is Code.PENDING
    made.write(*todo.patches)
    assert asked(made, todo).code is Code.PENDING
    bind(made, "c", "v")
    assert asked(made, todo).ok
    assert made.binding.pre_bind_pre_flight(made.state, pod, "a").skipped
    assert made.rejected(made.binding, made.pod("q", "c")) == {}


def test_a_volume_bound_beforehand_without_uid_gets_the_uid_and_keeps_who_bound_it() -> None:
    ref = {"namespace": "default", "name": "c"}
    made = world(claim("c"), volume("v", claimRef=ref, phase="Bound"))
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    (patch,) = plan(made, pod, "a").patches
    assert patch.merge_patch["spec"]["claimRef"]["uid"] == "uid-c"
    assert "metadata" not in patch.merge_patch


def test_a_volume_bound_to_the_claim_already_needs_no_patch_but_the_wait() -> None:
    ref = {"namespace": "default", "name": "c", "uid": "uid-c"}
    made = world(claim("c"), volume("v", claimRef=ref, phase="Bound"))
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    todo = plan(made, pod, "a")
    assert todo.patches == ()
    assert asked(made, todo).code is Code.PENDING
    bind(made, "c", "v")
    assert asked(made, todo).ok


def without_ref(made: VolumeWorld) -> None:
    made.put(volume("v"))


def volume_gone(made: VolumeWorld) -> None:
    made.cluster.delete("PersistentVolume", "", "v")


def bound_anew(made: VolumeWorld) -> None:
    made.put(volume("v", claimRef={"namespace": "default", "name": "c", "uid": "other"}))


def claim_gone(made: VolumeWorld) -> None:
    made.cluster.delete("PersistentVolumeClaim", "default", "c")


def claim_anew(made: VolumeWorld) -> None:
    anew = claim("c", volume="w")
    anew["metadata"]["uid"] = "other"
    made.put(anew, volume("w", zones=["b"]))


def pod_gone(made: VolumeWorld) -> None:
    del made.cluster.pods["default/p"]


def node_gone(made: VolumeWorld) -> None:
    made.cluster.columns.remove_node("a")


def volume_moved(made: VolumeWorld) -> None:
    ref = {"namespace": "default", "name": "c", "uid": "uid-c"}
    made.put(volume("v", zones=["b"], claimRef=ref))


STATIC_FAILURES = {
    "the volume was unbound": (without_ref, 'ClaimRef got reset for pv "v"'),
    "the volume is gone": (
        volume_gone, 'failed to check binding: persistentvolumes "v" not found',
    ),
    "the volume was bound to another claim": (bound_anew, 'ClaimRef got reset for pv "v"'),
    "the claim is gone": (
        claim_gone, 'failed to check binding: persistentvolumeclaims "default/c" not found',
    ),
    "the claim was made anew": (
        claim_anew, 'failed to check binding: persistentvolumeclaims "default/c" not found',
    ),
    "the pod is gone": (pod_gone, 'pod does not exist any more: pod "p" not found'),
    "the node is gone": (node_gone, 'failed to get node "a": node "a" not found'),
    "the volume cannot be reached": (
        volume_moved,
        'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STATIC_FAILURES)
def test_the_wait_ends_with_an_error_when_it_has_become_pointless(name: str) -> None:
    change, text = STATIC_FAILURES[name]
    made = world(claim("c"), volume("v"))
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    todo = plan(made, pod, "a")
    made.write(*todo.patches)
    change(made)
    status = asked(made, todo)
    assert status.code is Code.ERROR
    assert status.reasons == (f"binding volumes: {text}",)


@pytest.mark.parametrize("storage", ["local", "dyn"])
def test_pods_that_share_a_claim_do_not_write_its_binding_twice(storage: str) -> None:
    made = world(claim("c", storage_class=storage), volume("v"))
    first, second = made.pod("p", "c"), made.pod("q", "c")
    reserve(made, first, "a")
    reserve(made, second, "a")
    todo = plan(made, first, "a")
    made.write(*todo.patches)
    # The second pod plans again once the first has written the object that both wait to write.
    rest = plan(made, second, "a")
    assert (len(todo.patches), rest.patches) == (1, ())
    assert asked(made, rest).code is Code.PENDING
    bind(made, "c", "v")
    assert asked(made, todo).ok
    assert asked(made, rest).ok


def test_a_volume_stays_reserved_for_the_other_pod_that_shares_the_claim() -> None:
    made = world(claim("c"), claim("d"), volume("v"))
    first, second, other = made.pod("p", "c"), made.pod("q", "c"), made.pod("r", "d")
    reserve(made, first, "a")
    reserve(made, second, "a")
    made.binding.unreserve(made.state, second, "a")
    assert set(made.rejected(made.binding, other)) == {"a", "b"}
    made.binding.unreserve(made.state, first, "a")
    assert made.rejected(made.binding, other) == {}


def test_a_volume_stays_reserved_for_a_pod_of_another_profile_that_shares_the_claim() -> None:
    made = world(claim("c"), claim("d"), volume("v"))
    others = VolumeBinding(VolumeBindingArgs(), made)
    first, second, third = made.pod("p", "c"), made.pod("q", "c"), made.pod("r", "d")
    reserve(made, first, "a")
    assert made.rejected(others, second) == {} and others.reserve(made.state, second, "a").ok
    made.binding.unreserve(made.state, first, "a")
    assert set(made.rejected(made.binding, third)) == {"a", "b"}
    others.unreserve(made.state, second, "a")
    assert made.rejected(made.binding, third) == {}


@pytest.mark.parametrize("storage", ["local", "dyn"])
def test_a_claim_that_a_pod_mounts_twice_is_bound_once(storage: str) -> None:
    made = world(claim("c", storage_class=storage), volume("v"), volume("w"))
    pod = made.pod("p", "c", "c")
    reserve(made, pod, "a")
    assert len(plan(made, pod, "a").patches) == 1


# ---------------------------------------------------------------------------------- dynamic


def test_a_claim_to_provision_for_is_annotated_with_the_node() -> None:
    made = world(claim("c", storage_class="dyn"))
    pod = made.pod("p", "c")
    reserve(made, pod, "b")
    (patch,) = plan(made, pod, "b").patches
    assert (patch.kind, patch.namespace, patch.name) == ("PersistentVolumeClaim", "default", "c")
    assert patch.merge_patch == {"metadata": {"annotations": {SELECTED_NODE: "b"}}}
    assert patch.resource_version == "7"


def test_another_pod_with_the_claim_goes_where_it_is_being_provisioned() -> None:
    made = world(claim("c", storage_class="dyn"))
    first, second = made.pod("p", "c"), made.pod("q", "c")
    reserve(made, first, "b")
    assert set(made.rejected(made.binding, second)) == {"a"}
    made.binding.unreserve(made.state, first, "b")
    assert made.rejected(made.binding, second) == {}


def test_a_pod_whose_volumes_were_taken_since_is_turned_down_by_reserve() -> None:
    made = world(claim("c", storage_class="dyn"))
    first, second = made.pod("p", "c"), made.pod("q", "c")
    assert made.rejected(made.binding, second) == {}
    made.binding.reserve(made.state, first, "b")
    assert made.binding.reserve(made.state, second, "a").code is Code.ERROR


def test_provisioning_is_done_when_the_claim_is_bound_to_a_volume_that_is_known() -> None:
    made = world(claim("c", storage_class="dyn"))
    pod = made.pod("p", "c")
    reserve(made, pod, "b")
    todo = plan(made, pod, "b")
    assert asked(made, todo).code is Code.PENDING
    made.write(*todo.patches)
    assert asked(made, todo).code is Code.PENDING
    bind(made, "c", "made")
    assert asked(made, todo).code is Code.PENDING
    made.put(volume("made", storage_class="dyn", zones=["b"]))
    assert asked(made, todo).ok


def test_a_provisioner_that_gives_up_the_node_sends_the_pod_back() -> None:
    made = world(claim("c", storage_class="dyn", annotations={"x": "y"}))
    pod = made.pod("p", "c")
    reserve(made, pod, "b")
    todo = plan(made, pod, "b")
    made.write(*todo.patches)
    made.put(claim("c", storage_class="dyn", annotations={"x": "y"}))
    assert asked(made, todo).reasons == ('binding volumes: provisioning failed for PVC "c"',)
    made.put(claim("c", storage_class="dyn"))
    reset = 'binding volumes: selectedNode annotation reset for PVC "c"'
    assert asked(made, todo).reasons == (reset,)


def test_a_provisioner_that_gives_up_is_heeded_once_the_volumes_before_are_there() -> None:
    made = world(claim("c", storage_class="dyn"), claim("d", storage_class="dyn"))
    pod = made.pod("p", "c", "d")
    reserve(made, pod, "b")
    todo = plan(made, pod, "b")
    made.write(*todo.patches)
    made.put(claim("d", storage_class="dyn"))
    assert asked(made, todo).code is Code.PENDING
    made.put(volume("made", storage_class="dyn", zones=["b"]))
    bind(made, "c", "made")
    assert asked(made, todo).code is Code.ERROR


def test_a_volume_provisioned_out_of_reach_sends_the_pod_back() -> None:
    made = world(claim("c", storage_class="dyn"), volume("made", storage_class="x", zones=["a"]))
    pod = made.pod("p", "c")
    reserve(made, pod, "b")
    todo = plan(made, pod, "b")
    made.write(*todo.patches)
    bind(made, "c", "made")
    assert asked(made, todo).code is Code.ERROR


def test_static_and_dynamic_bindings_of_one_pod_go_together() -> None:
    made = world(claim("c"), volume("v"), claim("d", storage_class="dyn"))
    pod = made.pod("p", "c", "d")
    reserve(made, pod, "a")
    todo = plan(made, pod, "a")
    assert [patch.name for patch in todo.patches] == ["v", "d"]
    made.write(*todo.patches)
    bind(made, "c", "v")
    assert asked(made, todo).code is Code.PENDING
    made.put(volume("w", storage_class="dyn"))
    bind(made, "d", "w")
    assert asked(made, todo).ok


def test_an_assumption_ends_with_the_next_event_of_its_object() -> None:
    made = world(claim("c"), claim("d"), volume("v"))
    reserve(made, made.pod("p", "c"), "a")
    other = made.pod("q", "d")
    assert set(made.rejected(made.binding, other)) == {"a", "b"}
    made.put(volume("v", labels={"new": "label"}))
    assert made.rejected(made.binding, other) == {}


def test_the_wait_lasts_as_long_as_the_arguments_say() -> None:
    made = world(claim("c"), volume("v"))
    made.binding = VolumeBinding(VolumeBindingArgs(bind_timeout_seconds=7), made)
    pod = made.pod("p", "c")
    reserve(made, pod, "a")
    assert plan(made, pod, "a").timeout == 7.0


# ---------------------------------------------------------------------------------- events


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def pool(
    capacity: str | None = None, maximum_volume_size: str | None = None
) -> v1.CSIStorageCapacity:
    made = v1.CSIStorageCapacity(capacity=capacity, maximum_volume_size=maximum_volume_size)
    made.metadata.name = "pool"
    return made


def driver(*, tracks: bool) -> v1.CSIDriver:
    made = v1.CSIDriver()
    made.metadata.name = "d"
    made.spec.storage_capacity = tracks
    return made


def test_storage_capacity_wakes_pods_when_the_largest_volume_grows() -> None:
    pod = world().pod("p", "c")
    one, two = pool(capacity="1Gi"), pool(capacity="2Gi")
    limited = pool(capacity="9Gi", maximum_volume_size="1Gi")
    said = [
        hint_on(BINDING, pod, *change)
        for change in ((None, one), (one, two), (two, one), (one, limited), (pool(), one))
    ]
    assert said == [QUEUE, QUEUE, SKIP, SKIP, QUEUE]


def test_a_driver_wakes_pods_with_claims_when_it_stops_tracking_capacity() -> None:
    pod = world().pod("p", "c")
    on, off = driver(tracks=True), driver(tracks=False)
    assert hint_on(BINDING, pod, on, off) is hint_on(BINDING, pod, on, None) is QUEUE
    assert hint_on(BINDING, pod, off, on) is hint_on(BINDING, pod, off, None) is SKIP


def test_classes_claims_and_csi_nodes_wake_pods_by_what_changed() -> None:
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}]
    made = world(
        claim("c"), claim("d"), storage_class("zoned", "x", allowedTopologies=zones),
        csi_node("a", {"d": 1}), csi_node("b", {"d": 1}, migrated="kubernetes.io/cinder"),
    )  # fmt: skip
    pod, get = made.pod("p", "c"), made.cluster.get
    local, dyn, zoned = (get("StorageClass", "", name) for name in ("local", "dyn", "zoned"))
    assert hint_on(BINDING, pod, None, local) is QUEUE
    assert (hint_on(BINDING, pod, local, dyn), hint_on(BINDING, pod, dyn, zoned)) == (
        SKIP, QUEUE,
    )  # fmt: skip
    c, d = (get("PersistentVolumeClaim", "default", name) for name in "cd")
    assert (hint_on(BINDING, pod, d, c), hint_on(BINDING, pod, c, d)) == (QUEUE, SKIP)
    a, b = (get("CSINode", "", name) for name in "ab")
    assert (hint_on(BINDING, pod, None, a), hint_on(BINDING, pod, a, a)) == (
        QUEUE,
        SKIP,
    )
    assert hint_on(BINDING, pod, a, b) is QUEUE


def test_a_pod_that_gives_back_its_reservation_wakes_the_pods_that_may_need_it() -> None:
    made = world(
        claim("unbound"), claim("bound", volume="w"), claim("dyn", storage_class="dyn"), volume("w")
    )
    waiting, sharing = made.pod("p", "other"), made.pod("q", "dyn")
    gone = [made.pod(f"of-{name}", name).pod for name in ("unbound", "bound", "dyn")]
    binding = made.binding
    assert [hint_on(binding, waiting, pod, None) for pod in gone] == [QUEUE, SKIP, SKIP]
    assert [hint_on(binding, sharing, pod, None) for pod in gone] == [QUEUE, SKIP, QUEUE]


def test_a_volume_that_is_given_back_wakes_pods_although_its_class_has_a_provisioner() -> None:
    made = world(claim("dyn", storage_class="dyn"), volume("v", storage_class="dyn"))
    gone = made.pod("of-dyn", "dyn").pod
    assert hint_on(made.binding, made.pod("p", "other"), gone, None) is QUEUE


@pytest.mark.parametrize("plugin", ["restrictions", "limits", "binding", "zone"])
def test_a_claim_is_shown_only_to_the_pods_that_mount_it(plugin: str) -> None:
    made = world(claim("c"))
    changed = made.cluster.get("PersistentVolumeClaim", "default", "c")
    resource = Resource.PERSISTENT_VOLUME_CLAIM
    events = getattr(made, plugin).events_to_register()
    index = next(e.index for e in events if e.event.resource is resource)()
    index.add("mounts it", made.pod("p", "x", "c"))
    index.add("mounts another", made.pod("q", "d"))
    index.add("of another namespace", made.pod("r", "c", namespace="other"))
    assert list(index.candidates(None, changed)) == ["mounts it"]
