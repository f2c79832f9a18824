from __future__ import annotations

import json
from typing import Any

import pytest

from podsched.api.objects import (
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from podsched.serve.agent.volume_index import VolumeIndex
from podsched.serve.agent.volumes import Effect, Round, View
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

NODE = "volume.kubernetes.io/selected-node"
PROVISIONER = "podsched.io/hollow"


def claim(name: str = "data", class_name: str | None = "dyn", **annotations: str) -> Any:
    item = PersistentVolumeClaim()
    item.metadata.name, item.metadata.namespace = name, "default"
    item.metadata.uid = f"uid-{name}"
    item.metadata.annotations.update(annotations)
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.resources.requests["storage"] = "2Gi"
    if class_name is not None:
        item.spec.storage_class_name = class_name
    return item


def volume(name: str, size: str = "5Gi", /, class_name: str = "dyn", **claim_ref: str) -> Any:
    item = PersistentVolume()
    item.metadata.name = name
    item.spec.capacity["storage"] = size
    item.spec.access_modes.extend(["ReadWriteOnce", "ReadOnlyMany"])
    item.spec.storage_class_name = class_name
    item.status.phase = "Available"
    for field, value in claim_ref.items():
        setattr(item.spec.claim_ref, field, value)
    if claim_ref:
        item.spec.claim_ref.namespace = "default"
    return item


def storage_class(mode: str = "WaitForFirstConsumer", provisioner: str = PROVISIONER) -> Any:
    item = StorageClass(provisioner=provisioner, volume_binding_mode=mode, reclaim_policy="Delete")
    item.metadata.name = "dyn"
    return item


def node(name: str, **labels: str) -> Node:
    item = Node()
    item.metadata.name = name
    item.metadata.labels.update(labels)
    return item


def view(*items: Any) -> View:
    found = View({}, {}, {}, {}, {}, VolumeIndex())
    places: dict[type[Any], Any] = {
        PersistentVolumeClaim: found.claims,
        PersistentVolume: found.volumes,
        StorageClass: found.classes,
        Node: found.nodes,
        CSINode: found.csi_nodes,
    }
    for item in items:
        namespaced = isinstance(item, PersistentVolumeClaim)
        key = f"default/{item.metadata.name}" if namespaced else item.metadata.name
        places[type(item)][key] = item
        if namespaced:
            found.index.put_claim(key, item)
        elif isinstance(item, PersistentVolume):
            found.index.put_volume(key, item)
    return found


def patch_of(effects: list[Effect]) -> dict[str, Any]:
    (effect,) = effects
    assert isinstance(effect, PatchRequest)
    patch: dict[str, Any] = json.loads(effect.merge_patch)
    return {"name": effect.name, **patch}


def test_a_waiting_class_leaves_free_volumes_to_the_scheduler() -> None:
    world = view(storage_class(), claim(), volume("free"))
    assert Round(world).sync_claim("default/data") == []


def test_two_claims_of_one_round_get_two_volumes() -> None:
    world = view(
        storage_class("Immediate"),
        claim("one"),
        claim("two"),
        volume("small"),
        volume("big", "9Gi"),
    )
    turn = Round(world)
    names = [patch_of(turn.sync_claim(f"default/{name}"))["name"] for name in ("one", "two")]
    assert names == ["small", "big"]


def test_volumes_that_do_not_suit_are_passed_over() -> None:
    block = volume("block")
    block.spec.volume_mode = "Block"
    fast = volume("fast")
    fast.spec.volume_attributes_class_name = "fast"
    read_only = volume("read-only")
    del read_only.spec.access_modes[0]
    taken = volume("taken", name="other")
    pending = volume("pending")
    pending.status.phase = "Pending"
    world = view(
        storage_class("Immediate", "kubernetes.io/no-provisioner"),
        claim(),
        block,
        fast,
        read_only,
        taken,
        pending,
        volume("small", "1Gi"),
        volume("of-another-class", class_name="other"),
    )
    assert Round(world).sync_claim("default/data") == []


def test_a_selector_chooses_among_volumes() -> None:
    wanted = claim()
    wanted.spec.selector.match_labels["tier"] = "gold"
    gold = volume("gold", "9Gi")
    gold.metadata.labels["tier"] = "gold"
    world = view(storage_class("Immediate"), wanted, volume("plain"), gold)
    assert patch_of(Round(world).sync_claim("default/data"))["name"] == "gold"


@pytest.mark.parametrize(
    ("size", "class_name", "claim_ref", "bound"),
    [
        ("5Gi", "dyn", {}, True),
        ("1Gi", "dyn", {}, False),
        ("5Gi", "other", {}, False),
        ("1Gi", "other", {"name": "data"}, True),
        ("5Gi", "dyn", {"name": "another"}, False),
    ],
)
def test_a_claim_is_bound_to_the_volume_that_it_names_if_that_suits_or_names_the_claim(
    size: str, class_name: str, claim_ref: dict[str, str], bound: bool
) -> None:
    wanted = claim()
    wanted.spec.volume_name = "v"
    world = view(wanted, volume("v", size, class_name, **claim_ref))
    effects = Round(world).sync_claim("default/data")
    assert [effect.name for effect in effects if isinstance(effect, PatchRequest)] == ["v"] * bound


def test_binding_is_volume_first_claim_second() -> None:
    free, wanted = volume("v"), claim()
    world = view(storage_class("Immediate"), wanted, free)
    patch = patch_of(Round(world).sync_claim("default/data"))
    assert patch["name"] == "v"
    assert patch["spec"]["claimRef"]["uid"] == "uid-data"
    assert patch["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    free.spec.claim_ref.name, free.spec.claim_ref.namespace = "data", "default"
    free.spec.claim_ref.uid, free.status.phase = "uid-data", "Bound"
    world.index.put_volume("v", free)
    patch = patch_of(Round(world).sync_claim("default/data"))
    assert patch["name"] == "data"
    assert patch["spec"] == {"volumeName": "v"}
    assert patch["status"]["phase"] == "Bound"
    annotations = {"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"}
    assert set(patch["metadata"]["annotations"]) == annotations


def test_a_claim_without_a_class_gets_the_default_one() -> None:
    default = storage_class()
    default.metadata.annotations["storageclass.kubernetes.io/is-default-class"] = "true"
    world = view(default, claim(class_name=None))
    assert patch_of(Round(world).sync_claim("default/data"))["spec"] == {"storageClassName": "dyn"}


def test_a_volume_whose_claim_is_another_of_that_name_is_released() -> None:
    world = view(claim(), volume("v", name="data", uid="another"))
    assert patch_of(Round(world).sync_volume("v"))["status"] == {"phase": "Released"}


def test_a_volume_that_a_user_gave_to_a_claim_waits_until_the_claim_has_no_other() -> None:
    bound = claim()
    bound.spec.volume_name = "another"
    patch = patch_of(Round(view(bound, volume("v", name="data", uid="uid-data"))).sync_volume("v"))
    assert patch["spec"] == {"claimRef": {"uid": None}}
    assert patch["status"] == {"phase": "Available"}


def test_only_volumes_that_were_provisioned_here_are_deleted() -> None:
    theirs = volume("theirs", name="data", uid="gone")
    theirs.spec.persistent_volume_reclaim_policy = "Delete"
    ours = volume("ours", name="data", uid="gone")
    ours.spec.persistent_volume_reclaim_policy = "Delete"
    ours.metadata.annotations["pv.kubernetes.io/provisioned-by"] = PROVISIONER
    turn = Round(view(theirs, ours))
    assert patch_of(turn.sync_volume("theirs"))["status"] == {"phase": "Released"}
    ours.metadata.uid, ours.metadata.resource_version = "uid-ours", "7"
    wanted = DeleteRequest(kind="PersistentVolume", name="ours")
    wanted.preconditions.uid, wanted.preconditions.resource_version = "uid-ours", 7
    assert turn.sync_volume("ours") == [wanted]


def test_a_provisioned_volume_whose_claim_has_another_one_is_deleted() -> None:
    """The claim can be bound to a volume that comes while its own is provisioned."""
    bound = claim()
    bound.spec.volume_name = "another"
    late = volume("pvc-uid-data", name="data", uid="uid-data")
    late.spec.persistent_volume_reclaim_policy = "Delete"
    late.metadata.annotations["pv.kubernetes.io/provisioned-by"] = PROVISIONER
    (effect,) = Round(view(bound, late)).sync_volume("pvc-uid-data")
    assert isinstance(effect, DeleteRequest)


def test_a_claim_that_has_lost_its_volume_says_so() -> None:
    lost = claim(**{"pv.kubernetes.io/bind-completed": "yes"})
    lost.spec.volume_name = "gone"
    assert patch_of(Round(view(lost)).sync_claim("default/data"))["status"] == {"phase": "Lost"}


def chosen(**annotations: str) -> Any:
    provisioner = {"volume.kubernetes.io/storage-provisioner": PROVISIONER}
    return claim(**{NODE: "n1", **provisioner, **annotations})


def test_a_claim_is_annotated_with_its_provisioner_first() -> None:
    world = view(storage_class(), claim(**{NODE: "n1"}), node("n1"))
    patch = patch_of(Round(world).sync_claim("default/data"))
    names = set(patch["metadata"]["annotations"].values())
    assert names == {PROVISIONER}


def created(world: View) -> PersistentVolume:
    (effect,) = Round(world).sync_claim("default/data")
    assert isinstance(effect, PersistentVolume)
    return effect


def requirements(made: PersistentVolume) -> list[tuple[str, list[str]]]:
    terms = made.spec.node_affinity.required.node_selector_terms
    return [(e.key, list(e.values)) for term in terms for e in term.match_expressions]


def test_a_volume_is_provisioned_in_the_zone_of_the_chosen_node() -> None:
    zone = {"topology.kubernetes.io/zone": "a"}
    made = created(view(storage_class(), chosen(), node("n1", **zone)))
    assert made.metadata.name == "pvc-uid-data"
    assert made.spec.capacity["storage"] == "2Gi"
    assert made.spec.claim_ref.uid == "uid-data"
    assert requirements(made) == [("topology.kubernetes.io/zone", ["a"])]


def test_a_volume_is_provisioned_with_the_attributes_class_of_its_claim_and_suits_it() -> None:
    wanted = chosen()
    wanted.spec.volume_attributes_class_name = "fast"
    made = created(view(storage_class(), wanted, node("n1")))
    assert made.spec.volume_attributes_class_name == "fast"
    world = view(storage_class(), wanted, made)
    assert patch_of(Round(world).sync_claim("default/data"))["name"] == made.metadata.name


def test_the_driver_says_by_which_labels_its_volumes_are_reached() -> None:
    driver = CSINode()
    driver.metadata.name = "n1"
    driver.spec.drivers.add(name=PROVISIONER, topology_keys=["rack"])
    made = created(view(storage_class(), chosen(), node("n1", rack="r7"), driver))
    assert requirements(made) == [("rack", ["r7"])]


def test_a_node_outside_the_allowed_topologies_is_given_back_to_the_scheduler() -> None:
    limited = storage_class()
    term = limited.allowed_topologies.add()
    term.match_label_expressions.add(key="zone", values=["b", "c"])
    world = view(limited, chosen(), node("n1", zone="a"))
    patch = patch_of(Round(world).sync_claim("default/data"))
    assert patch["metadata"]["annotations"] == {NODE: None}
    made = created(view(limited, chosen(), node("n1", zone="b")))
    assert requirements(made) == [("zone", ["b"])]


def test_a_node_that_is_gone_is_given_back_to_the_scheduler() -> None:
    patch = patch_of(Round(view(storage_class(), chosen())).sync_claim("default/data"))
    assert patch["metadata"]["annotations"] == {NODE: None}


def test_other_provisioners_are_left_to_do_their_work() -> None:
    other = {"volume.kubernetes.io/storage-provisioner": "example.com/nobody"}
    world = view(storage_class(provisioner="example.com/nobody"), chosen(**other), node("n1"))
    assert Round(world).sync_claim("default/data") == []


def test_a_volume_is_provisioned_once() -> None:
    made = volume("pvc-uid-data", class_name="other")
    assert Round(view(storage_class(), chosen(), node("n1"), made)).sync_claim("default/data") == []


def test_a_volume_whose_size_cannot_be_read_keeps_no_claim_from_being_bound() -> None:
    """It is bound to no claim, and the next one is."""
    broken, good = volume("broken", "lots"), volume("good")
    turn = Round(view(claim(), broken, good, storage_class("Immediate", "elsewhere")))
    effects = turn.sync_claim("default/data")
    assert [effect.name for effect in effects if isinstance(effect, PatchRequest)] == ["good"]
