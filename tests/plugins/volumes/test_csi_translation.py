"""In-tree volumes as CSI volumes: handles and node affinity."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.plugins.volumes.csi_translation import (
    Untranslatable,
    in_tree_plugin,
    inline_handle,
    translated_affinity,
    volume_handle,
)
from podsched.v1 import objects_pb2 as v1

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, BETA_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
GCE = {"gcePersistentDisk": {"pdName": "d"}}
EBS_KEY = "topology.ebs.csi.aws.com/zone"


def pv(labels: dict[str, str] | None = None, **spec: Any) -> v1.PersistentVolume:
    manifest = {"kind": "PersistentVolume", "apiVersion": "v1",
                "metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}  # fmt: skip
    message = from_manifest(manifest).message
    assert isinstance(message, v1.PersistentVolume)
    return message


def handle(volume: v1.PersistentVolume) -> str:
    plugin = in_tree_plugin(volume.spec)
    assert plugin is not None
    return volume_handle(plugin, volume)


def ebs(identity: str) -> v1.PersistentVolume:
    return pv(awsElasticBlockStore={"volumeID": identity})


def azure_disk(**more: str) -> v1.PersistentVolume:
    return pv(azureDisk={"diskName": "n", "diskURI": "u", **more})


HANDLES: dict[str, tuple[v1.PersistentVolume, str]] = {
    "a disk without zone": (pv(**GCE), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
    "a disk in a zone": (pv({ZONE: "us-x-a"}, **GCE), "projects/UNSPECIFIED/zones/us-x-a/disks/d"),
    "the beta label comes first": (
        pv({ZONE: "a", BETA: "b"}, **GCE), "projects/UNSPECIFIED/zones/b/disks/d",
    ),
    "a disk in two zones is regional": (
        pv({ZONE: "us-x-a__us-x-b"}, **GCE), "projects/UNSPECIFIED/regions/us-x/disks/d",
    ),
    "an EBS id": (ebs("vol-1"), "vol-1"),
    "an EBS id with a zone": (ebs("aws://us-east-1a/vol-1"), "vol-1"),
    "an EBS id without a zone": (ebs("aws:///vol-1"), "vol-1"),
    "azure disk": (azure_disk(), "u"),
    "a managed azure disk": (azure_disk(kind="managed"), "u"),
    "cinder": (pv(cinder={"volumeID": "c"}), "c"),
    "portworx": (pv(portworxVolume={"volumeID": "p"}), "p"),
    "azure file": (
        pv(azureFile={"secretName": "azure-storage-account-acc-secret", "shareName": "s"}),
        "#acc#s#",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDLES)
def test_handles_are_those_of_the_translation_library(name: str) -> None:
    volume, expected = HANDLES[name]
    assert handle(volume) == expected


@pytest.mark.parametrize(
    "volume",
    [
        ebs("aws://z/disk-1"),
        ebs("aws://[z/vol-1"),
        pv({ZONE: "a__b"}, **GCE),
        pv({ZONE: "us-x-a__us-y-a"}, **GCE),
        azure_disk(kind="Shared"),
    ],
    ids=[
        "no EBS id",
        "no URL",
        "zones without a region",
        "zones of two regions",
        "a disk in an account",
    ],
)
def test_what_has_no_translation_says_so(volume: v1.PersistentVolume) -> None:
    with pytest.raises(Untranslatable):
        handle(volume)


def test_volumes_that_were_never_in_tree_have_no_plugin() -> None:
    assert in_tree_plugin(pv(csi={"driver": "d", "volumeHandle": "h"}).spec) is None
    assert in_tree_plugin(v1.Volume()) is None


def test_a_pods_own_disk_has_no_zone() -> None:
    volume = v1.Volume()
    volume.gce_persistent_disk.pd_name = "d"
    plugin = in_tree_plugin(volume)
    assert plugin is not None
    assert inline_handle(plugin, volume) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"


def affinity(*keys: str) -> dict[str, Any]:
    expressions = [{"key": key, "operator": "In", "values": ["a"]} for key in keys]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


SOURCE = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
AFFINITIES: dict[str, tuple[v1.PersistentVolume, list[tuple[str, list[str]]]]] = {
    "zones of the affinity move to the driver's label": (
        pv(nodeAffinity=affinity(ZONE, "disk"), **SOURCE), [(EBS_KEY, ["a"]), ("disk", ["a"])],
    ),
    "labels serve where the affinity has no zone": (
        pv({ZONE: "b__a"}, nodeAffinity=affinity("disk"), **SOURCE),
        [("disk", ["a"]), (EBS_KEY, ["a", "b"])],
    ),
    "the affinity's zones come before the labels": (
        pv({ZONE: "b"}, nodeAffinity=affinity(ZONE), **SOURCE), [(EBS_KEY, ["a"])],
    ),
    "labels alone make an affinity": (pv({BETA: "b"}, **SOURCE), [(EBS_KEY, ["b"])]),
    "a beta region becomes one of today": (
        pv(nodeAffinity=affinity(BETA, BETA_REGION), **SOURCE), [(EBS_KEY, ["a"]), (REGION, ["a"])],
    ),
    "azure disks keep their affinity": (
        pv(nodeAffinity=affinity(ZONE), azureDisk={"diskName": "n", "diskURI": "u"}),
        [(ZONE, ["a"])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AFFINITIES)
def test_topology_is_translated(name: str) -> None:
    volume, expected = AFFINITIES[name]
    plugin = in_tree_plugin(volume.spec)
    assert plugin is not None
    before = volume.SerializeToString(deterministic=True)
    terms = translated_affinity(plugin, volume).required.node_selector_terms
    assert [(e.key, list(e.values)) for t in terms for e in t.match_expressions] == expected
    assert volume.SerializeToString(deterministic=True) == before
