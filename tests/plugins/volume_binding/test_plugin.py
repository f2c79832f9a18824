"""VolumeBinding: which nodes a pod's claims allow, by PreFilter and Filter."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.framework.plugin import FIXED_INPUTS, CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.plugins.volume_binding.matching import match_claims
from podsched.plugins.volume_binding.plugin import (
    REASON_BIND_CONFLICT,
    REASON_NODE_CONFLICT,
    REASON_NOT_ENOUGH_SPACE,
    REASON_UNBOUND_IMMEDIATE,
    REASON_VOLUME_NOT_EXIST,
)
from podsched.v1 import objects_pb2 as v1
from support.examples import examples
from support.volume_world import (
    SELECTED_NODE,
    Manifest,
    VolumeWorld,
    claim,
    csi_node,
    storage_class,
    volume,
)

NODES = {"a": {"zone": "a"}, "b": {"zone": "b"}, "c": {"zone": "c"}}
LOCAL = storage_class("local")
DYN = storage_class("dyn", "csi.example.com")


def world(*objects: Manifest) -> VolumeWorld:
    return VolumeWorld(NODES, LOCAL, DYN, *objects)


def reasons(made: VolumeWorld, *claims: str, **more: Any) -> dict[str, tuple[str, ...]]:
    return made.rejected(made.binding, made.pod("p", *claims, **more))


def bind_conflict(*nodes: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(nodes, (REASON_BIND_CONFLICT,))


def missing(made: VolumeWorld, *claims: str) -> dict[str, list[str]]:
    """What each node misses of the requirements, by name."""
    state, pod, nodes = CycleState(), made.pod("p", *claims), made.cluster.columns
    assert made.binding.pre_filter(state, pod, made.cluster).status.ok
    rows = np.flatnonzero(nodes.alive)
    found = made.binding.requirements(state, pod, nodes, rows)
    return {
        nodes.names[row]: [r.what for r in found if r.wanted[at] > r.available[at]]
        for at, row in enumerate(rows.tolist())
    }


def test_a_node_misses_the_volumes_that_are_out_of_its_reach() -> None:
    made = world(volume("pv", zones=["a"]), claim("data", volume="pv"))
    out = ["persistentvolume pv, to which claim data is bound, within reach"]
    assert missing(made, "data") == {"a": [], "b": out, "c": out}


def test_a_node_misses_a_volume_for_a_claim_that_waits_for_the_pod() -> None:
    made = world(volume("pv", zones=["b"]), claim("data"))
    none = ["persistentvolumeclaim default/data: a volume to bind or to provision"]
    assert missing(made, "data") == {"a": none, "b": [], "c": none}


# ---------------------------------------------------------------------------------- PreFilter


def deleted(name: str) -> Manifest:
    made = claim(name)
    made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return made


def lost(name: str) -> Manifest:
    made = claim(name, volume="v")
    made["status"]["phase"] = "Lost"
    return made


UNUSABLE: dict[str, tuple[list[Manifest], str]] = {
    "missing": ([], 'persistentvolumeclaim "c" not found'),
    "being deleted": ([deleted("c")], 'persistentvolumeclaim "c" is being deleted'),
    "lost": (
        [lost("c")], 'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    "bound at once, but not yet": (
        [claim("c", storage_class="now"), storage_class("now", mode="Immediate")],
        REASON_UNBOUND_IMMEDIATE,
    ),
    "without a class": ([claim("c", storage_class=None)], REASON_UNBOUND_IMMEDIATE),
    "of a class that is missing": ([claim("c", storage_class="x")], REASON_UNBOUND_IMMEDIATE),
    "bound beforehand and waiting for it": (
        [claim("c", volume="v", annotations={}) | {
            "metadata": {"name": "c", "namespace": "default"}}],
        REASON_UNBOUND_IMMEDIATE,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_claim_that_can_be_used_nowhere_is_unresolvable(name: str) -> None:
    objects, reason = UNUSABLE[name]
    made = world(*objects)
    status = made.pre_filter(made.binding, made.pod("p", "c")).status
    assert status.reasons == (reason,)
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_ephemeral_claims_are_waited_for_and_must_belong_to_the_pod() -> None:
    made = world()
    pod = made.pod("p", volumes=[{"ephemeral": {}}])
    assert made.pre_filter(made.binding, pod).status.reasons == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"',
    )
    made.put(claim("p-v0", storage_class="dyn"))
    assert made.pre_filter(made.binding, pod).status.reasons == (
        "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
    )
    own = claim("p-v0", storage_class="dyn")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    own["metadata"]["ownerReferences"] = [owner]
    made.put(own)
    assert made.pre_filter(made.binding, pod).status.ok


def test_a_class_that_does_not_say_when_it_binds_is_an_error() -> None:
    made = world(claim("c", storage_class="x"), storage_class("x", mode=""))
    status = made.pre_filter(made.binding, made.pod("p", "c")).status
    assert status.code is Code.ERROR
    assert status.reasons == ('VolumeBindingMode not set for StorageClass "x"',)


def test_pods_without_claims_are_skipped_and_depend_on_nothing() -> None:
    made = world()
    pod = made.pod("p", volumes=[{"emptyDir": {}}])
    assert made.pre_filter(made.binding, pod).status.skipped
    assert made.binding.inputs(pod, made.cluster) == FIXED_INPUTS
    assert made.binding.reserve(made.state, pod, "a").ok
    assert made.binding.pre_bind_pre_flight(made.state, pod, "a").skipped


# ---------------------------------------------------------------------------------- bound claims


def test_a_bound_volume_keeps_the_pod_where_it_can_be_reached() -> None:
    made = world(claim("c", volume="v"), volume("v", zones=["a", "b"]))
    assert reasons(made, "c") == {"c": (REASON_NODE_CONFLICT,)}


def test_a_bound_volume_that_is_gone_rejects_every_node() -> None:
    made = world(claim("c", volume="v"))
    assert reasons(made, "c") == dict.fromkeys("abc", (REASON_VOLUME_NOT_EXIST,))


def test_the_first_claim_that_is_not_fine_gives_the_reason() -> None:
    made = world(claim("c", volume="v"), volume("v", zones=["a"]), claim("gone", volume="w"))
    conflict, gone = (REASON_NODE_CONFLICT,), (REASON_VOLUME_NOT_EXIST,)
    assert reasons(made, "c", "gone") == {"a": gone, "b": conflict, "c": conflict}
    assert set(reasons(made, "gone", "c").values()) == {gone}


def test_a_migrated_volume_is_found_by_the_drivers_label_where_the_node_has_migrated() -> None:
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    labels = {"topology.kubernetes.io/zone": "z"}
    nodes = {"new": {"topology.ebs.csi.aws.com/zone": "z"}, "other": {}, "old": {}}
    made = VolumeWorld(
        nodes, claim("c", volume="v"), volume("v", labels=labels, **ebs),
        csi_node("new", {}, migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
        csi_node("other", {}, migrated="kubernetes.io/aws-ebs"), csi_node("old", {}),
    )  # fmt: skip
    assert reasons(made, "c") == {"other": (REASON_NODE_CONFLICT,)}


def test_a_migrated_volume_that_cannot_be_translated_is_an_error_there() -> None:
    ebs: dict[str, Any] = {"awsElasticBlockStore": {"volumeID": "aws://z/nonsense"}}
    made = world(
        claim("c", volume="v"), volume("v", **ebs),
        csi_node("a", {}, migrated="kubernetes.io/aws-ebs"),
    )  # fmt: skip
    said = made.filter(made.binding, made.pod("p", "c"))
    assert said["a"].code is Code.ERROR
    assert said["a"].message.startswith("could not translate pv: ")
    assert said["b"].ok


# ---------------------------------------------------------------------------------- static


def other_claim(uid: str = "") -> dict[str, Any]:
    return {"claimRef": {"namespace": "default", "name": "other", "uid": uid}}


def mine(uid: str = "") -> dict[str, Any]:
    return {"claimRef": {"namespace": "default", "name": "c", "uid": uid}}


UNSUITABLE: dict[str, tuple[Manifest, Manifest]] = {
    "too small": (claim("c", size="2Gi"), volume("v", size="1Gi")),
    "of another class": (claim("c"), volume("v", storage_class="x")),
    "of another mode": (claim("c", volumeMode="Block"), volume("v")),
    "without the access mode": (claim("c", modes=["ReadWriteMany"]), volume("v")),
    "bound to another claim": (claim("c"), volume("v", **other_claim())),
    "bound to a claim of that name that is gone": (claim("c"), volume("v", **mine("old"))),
    "not available": (claim("c"), volume("v", phase="Released")),
    "not selected": (
        claim("c", selector={"matchLabels": {"disk": "ssd"}}), volume("v", labels={"disk": "hdd"}),
    ),
    "of another attributes class": (
        claim("c", volumeAttributesClassName="gold"), volume("v"),
    ),
    "out of reach": (claim("c"), volume("v", zones=["z"])),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUITABLE)
def test_a_volume_that_does_not_suit_the_claim_is_no_help(name: str) -> None:
    made = world(*UNSUITABLE[name])
    assert reasons(made, "c") == bind_conflict("a", "b", "c")


def test_a_volume_bound_to_the_claim_beforehand_is_the_only_one_it_may_get() -> None:
    made = world(
        claim("c"), volume("v", zones=["a"], phase="Bound", **mine()), volume("w", size="9Gi")
    )
    assert reasons(made, "c") == bind_conflict("b", "c")


def test_each_claim_needs_a_volume_of_its_own() -> None:
    objects = [claim("c"), claim("d"), volume("v", zones=["a", "b"]), volume("w", zones=["a"])]
    assert reasons(world(*objects), "c", "d") == bind_conflict("b", "c")


def test_small_claims_choose_first_and_leave_the_large_volume_to_large_ones() -> None:
    objects = [claim("big", size="5Gi"), claim("small"), volume("v5", size="5Gi"), volume("v1")]
    assert reasons(world(*objects), "big", "small") == {}


def test_all_requirements_of_a_volumes_term_must_be_met() -> None:
    made = VolumeWorld(
        {"a": {"zone": "z", "disk": "ssd"}, "b": {"zone": "z"}}, LOCAL, claim("c"), volume("v")
    )
    both = volume("v")
    expressions = [
        {"key": "zone", "operator": "In", "values": ["z"]},
        {"key": "disk", "operator": "In", "values": ["ssd"]},
    ]
    both["spec"]["nodeAffinity"] = {
        "required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    }
    made.put(both)
    assert reasons(made, "c") == bind_conflict("b")


def test_names_of_nodes_in_a_volumes_affinity_do_not_count() -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["a"]}]
    expressions = [{"key": "zone", "operator": "NotIn", "values": ["b"]}]
    named = volume("v")
    named["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    assert reasons(world(claim("c"), named), "c") == {}
    named["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = [
        {"matchFields": fields, "matchExpressions": expressions}
    ]
    assert reasons(world(claim("c"), named), "c") == bind_conflict("b")


def test_a_volume_that_becomes_available_is_seen() -> None:
    made = world(claim("c"), volume("v", phase="Pending"))
    assert reasons(made, "c") == bind_conflict("a", "b", "c")
    made.put(volume("v"))
    assert reasons(made, "c") == {}


# ---------------------------------------------------------------------------------- dynamic


def capacity(
    name: str, zone: str | None, amount: str | None = None, largest: str | None = None
) -> Manifest:
    made: Manifest = {
        "kind": "CSIStorageCapacity", "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name, "namespace": "kube-system"}, "storageClassName": "dyn",
    }  # fmt: skip
    if zone is not None:
        made["nodeTopology"] = {"matchLabels": {"zone": zone}}
    if amount is not None:
        made["capacity"] = amount
    if largest is not None:
        made["maximumVolumeSize"] = largest
    return made


def driver(*, tracks: bool = True) -> Manifest:
    return {"kind": "CSIDriver", "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": "csi.example.com"},
            "spec": {"storageCapacity": tracks}}  # fmt: skip


def test_a_class_with_a_provisioner_makes_volumes_on_any_node() -> None:
    assert reasons(world(claim("c", storage_class="dyn")), "c") == {}


def test_allowed_topologies_limit_where_volumes_are_made() -> None:
    zones = [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]
    made = world(
        claim("c", storage_class="t"),
        storage_class("t", "csi.example.com", allowedTopologies=zones),
    )
    assert reasons(made, "c") == bind_conflict("c")


def test_a_claim_under_way_to_a_node_is_provisioned_there_only() -> None:
    annotations = {SELECTED_NODE: "b"}
    made = world(claim("c", storage_class="dyn", annotations=annotations))
    assert reasons(made, "c") == bind_conflict("a", "c")


def test_capacity_counts_where_the_driver_tracks_it() -> None:
    pools = [
        capacity("a", "a", "9Gi"), capacity("b", "b", "9Gi", largest="1Gi"),
        capacity("c", "c", largest="2Gi"),
    ]  # fmt: skip
    wanted = claim("c", storage_class="dyn", size="2Gi")
    assert reasons(world(wanted, driver(), *pools), "c") == {"b": (REASON_NOT_ENOUGH_SPACE,)}
    assert reasons(world(wanted, driver(tracks=False), *pools), "c") == {}
    assert reasons(world(wanted, *pools), "c") == {}


def test_pools_without_topology_or_amount_can_be_reached_from_nowhere() -> None:
    wanted = claim("c", storage_class="dyn")
    made = world(wanted, driver(), capacity("x", None, "9Gi"), capacity("y", "a"))
    assert reasons(made, "c") == dict.fromkeys("abc", (REASON_NOT_ENOUGH_SPACE,))


def test_several_reasons_are_given_together() -> None:
    made = world(
        claim("c", storage_class="dyn"), driver(), claim("d", volume="v"), volume("v", zones=["a"])
    )
    both = (REASON_NODE_CONFLICT, REASON_NOT_ENOUGH_SPACE)
    assert reasons(made, "c", "d") == {"a": (REASON_NOT_ENOUGH_SPACE,), "b": both, "c": both}


# ---------------------------------------------------------------------------------- rows


def test_a_fork_and_a_pickled_state_give_the_same_verdicts() -> None:
    made = world(claim("c"), volume("v", zones=["b"]), claim("d", volume="w"), volume("w"))
    pod = made.pod("p", "c", "d")
    expected = made.filter(made.binding, pod)
    state = pickle.loads(pickle.dumps(made.state))
    fork = made.cluster.columns.fork(np.array([made.row("b"), made.row("a")], dtype=np.intp))
    verdicts = made.binding.filter(state, pod, fork, np.arange(2, dtype=np.intp))
    assert [verdicts.status(0), verdicts.status(1)] == [expected["b"], expected["a"]]


def plain_match(
    claims: list[v1.PersistentVolumeClaim], volumes: list[v1.PersistentVolume], zone: str
) -> dict[str, str | None]:
    """FindMatchingVolume for one node, claim by claim: the volume that each claim gets."""
    taken: dict[str, str | None] = {}
    sizes = {"1Gi": Fraction(1), "2Gi": Fraction(2), "3Gi": Fraction(3)}
    for wanted in sorted(claims, key=lambda c: sizes[c.spec.resources.requests["storage"]]):
        best = None
        for candidate in volumes:
            size = sizes[candidate.spec.capacity["storage"]]
            terms = candidate.spec.node_affinity.required.node_selector_terms
            near = not terms or any(zone in t.match_expressions[0].values for t in terms)
            ref = candidate.spec.claim_ref
            if candidate.metadata.name in taken.values() or (
                ref.name and ref.name != wanted.metadata.name
            ):
                continue
            if size < sizes[wanted.spec.resources.requests["storage"]]:
                continue
            if ref.name:
                best = candidate if near else None
                break
            free = candidate.status.phase == "Available"
            if free and near and (best is None or size < sizes[best.spec.capacity["storage"]]):
                best = candidate
        taken[wanted.metadata.name] = None if best is None else best.metadata.name
    return taken


def zone_terms(terms: list[list[str]]) -> dict[str, Any]:
    expressions = [{"key": "zone", "operator": "In", "values": zones} for zones in terms]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [e]} for e in expressions]}}


@examples(150)
@given(st.data())
def test_matching_over_rows_agrees_with_matching_node_by_node(data: st.DataObject) -> None:
    sizes = st.sampled_from(("1Gi", "2Gi", "3Gi"))
    names = ["c0", "c1", "c2"][: data.draw(st.integers(1, 3))]
    objects = [claim(name, size=data.draw(sizes)) for name in names]
    for number in range(data.draw(st.integers(0, 6))):
        ref = data.draw(st.sampled_from(("", "", "", *names)))
        spec: dict[str, Any] = {"claimRef": {"namespace": "default", "name": ref}} if ref else {}
        zones = data.draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True))
        phase = data.draw(st.sampled_from(("Available", "Available", "Released")))
        made_volume = volume(f"v{number}", size=data.draw(sizes), phase=phase, **spec)
        terms = [zones] if data.draw(st.booleans()) else [[zone] for zone in zones]
        if zones:
            made_volume["spec"]["nodeAffinity"] = zone_terms(terms)
        objects.append(made_volume)
    made = world(*objects)
    cluster = made.cluster
    claims: list[Any] = [cluster.get("PersistentVolumeClaim", "default", n) for n in names]
    volumes = list(cluster.list("PersistentVolume"))
    expected = {n: plain_match(claims, volumes, n) for n in "abc"}
    pod: PodInfo = made.pod("p", *names)
    rejected = {n for n, chosen in expected.items() if None in chosen.values()}
    assert set(made.rejected(made.binding, pod)) == rejected
    unbound = made.state.data["VolumeBinding"].unbound
    rows = np.array([made.row(n) for n in "abc"], dtype=np.intp)
    for wanted, indices in match_claims(unbound, cluster.columns, rows).chosen:
        every = [*(c.name for c in (*wanted.prebound, *wanted.candidates)), None]
        name = wanted.key.removeprefix("default/")
        assert [every[i] for i in indices.tolist()] == [expected[n][name] for n in "abc"]
