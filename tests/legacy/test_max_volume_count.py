"""The Max...VolumeCount family: what counts, and the limit."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from podsched.framework.plugin import CycleState
from podsched.legacy.max_volume_count import (
    REASON,
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, info, made, rejections

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "300"}
SOURCES = {
    MaxEBSVolumeCount: ("awsElasticBlockStore", "volumeID", 39),
    MaxGCEPDVolumeCount: ("gcePersistentDisk", "pdName", 16),
    MaxAzureDiskVolumeCount: ("azureDisk", "diskName", 16),
    MaxCinderVolumeCount: ("cinder", "volumeID", 256),
}


def mounting(plugin: Any, name: str, *disks: str, on: str = "") -> v1.Pod:
    source, field, _ = SOURCES[plugin]
    volumes = [{"name": f"v-{disk}", source: {field: disk}} for disk in disks]
    return pod(name, {"volumes": volumes, **({"nodeName": on} if on else {})})


def claiming(*claims: str) -> v1.Pod:
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod("p", {"volumes": volumes})


def fits(plugin: Any, there: int, new: v1.Pod, allocatable: Any = None, **labels: str) -> bool:
    disks = [f"d{i}" for i in range(there)]
    room = node("n", allocatable={**ROOM, **(allocatable or {})}, labels=labels)
    state = cluster(room, pods=[mounting(plugin, "there", *disks, on="n")])
    found = rejections(made(plugin, state), new, state)
    assert found in ({}, {"n": (REASON,)})
    return not found


@pytest.mark.parametrize("plugin", SOURCES)
def test_the_clouds_default_is_the_limit(plugin: Any) -> None:
    limit = SOURCES[plugin][2]
    one_more = mounting(plugin, "p", "mine")
    assert fits(plugin, limit - 1, one_more)
    assert not fits(plugin, limit, one_more)
    assert fits(plugin, limit, mounting(plugin, "p", "d0")), "it is there already"
    assert fits(plugin, limit, pod("p")), "a pod without disks"


@pytest.mark.parametrize(
    ("kind", "limit"), [("m5.large", 25), ("t3.nano", 25), ("z1d.large", 25), ("m4.large", 39)]
)
def test_nitro_instances_attach_fewer_ebs_volumes(kind: str, limit: int) -> None:
    new = mounting(MaxEBSVolumeCount, "p", "mine")
    labels = {"beta.kubernetes.io/instance-type": kind}
    assert fits(MaxEBSVolumeCount, limit - 1, new, **labels)
    assert not fits(MaxEBSVolumeCount, limit, new, **labels)


def test_what_the_node_declares_is_the_limit() -> None:
    new = mounting(MaxEBSVolumeCount, "p", "mine")
    key = "attachable-volumes-aws-ebs"
    assert fits(MaxEBSVolumeCount, 49, new, {key: "50"})
    assert not fits(MaxEBSVolumeCount, 2, new, {key: "2"})
    assert not fits(MaxEBSVolumeCount, 0, new, {key: "0"})


def test_max_volumes_is_the_limit_of_nodes_that_declare_none() -> None:
    new = mounting(MaxEBSVolumeCount, "p", "a", "b")
    for allocatable, rejected in (
        (ROOM, True),
        ({**ROOM, "attachable-volumes-aws-ebs": "2"}, False),
    ):
        state = cluster(node("n", allocatable=allocatable))
        plugin = made(MaxEBSVolumeCount, state, max_volumes=1)
        assert bool(rejections(plugin, new, state)) is rejected


def storage(state: Any) -> None:
    storage_class = v1.StorageClass(provisioner="kubernetes.io/aws-ebs")
    storage_class.metadata.name = "ebs"
    state.put("StorageClass", storage_class)
    volume = v1.PersistentVolume()
    volume.metadata.name = "pv"
    volume.spec.aws_elastic_block_store.volume_id = "behind"
    state.put("PersistentVolume", volume)
    for name, bound in (("bound", "pv"), ("again", "pv"), ("unbound", ""), ("lost", "gone")):
        claim = v1.PersistentVolumeClaim()
        claim.metadata.name, claim.metadata.namespace = name, "default"
        claim.spec.volume_name, claim.spec.storage_class_name = bound, "ebs"
        state.put("PersistentVolumeClaim", claim)


@pytest.mark.parametrize(
    ("claims", "counted"),
    [
        (("bound", "again"), 1),  # two claims of one volume
        (("bound", "unbound"), 2),
        (("unbound", "lost"), 2),
        (("missing",), 0),
    ],
)
def test_claims_count_by_their_volumes(claims: tuple[str, ...], counted: int) -> None:
    for limit in (1, 2):
        state = cluster(node("n", allocatable=ROOM))
        storage(state)
        found = rejections(
            made(MaxEBSVolumeCount, state, max_volumes=limit), claiming(*claims), state
        )
        assert bool(found) == (counted > limit)


def test_its_state_decides_the_same_in_another_process() -> None:
    state = cluster(node("n", allocatable=ROOM), pods=[claiming_on("n", "bound")])
    storage(state)
    plugin, cycle = made(MaxEBSVolumeCount, state, max_volumes=1), CycleState()
    pending = info(claiming("unbound"))
    plugin.pre_filter(cycle, pending, state)
    copy = pickle.loads(pickle.dumps(cycle))
    rows = state.columns.node_table.live_rows
    for each in (cycle, copy):
        assert not plugin.filter(each, pending, state.columns, rows).passed.any()


def claiming_on(name: str, claim: str) -> v1.Pod:
    made = claiming(claim)
    made.metadata.name, made.metadata.uid, made.spec.node_name = "there", "uid-there", name
    return made
