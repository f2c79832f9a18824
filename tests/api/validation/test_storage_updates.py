"""Which changes volumes, CSI objects, StorageClasses and VolumeAttachments allow."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import apply_merge_patch, from_manifest
from podsched.api.objects import AnyObject
from podsched.api.validation import validate

IMMUTABLE = "field is immutable"
DRIVER = {"name": "csi.example.com", "nodeID": "n1", "allocatable": {"count": 8}}
#: Of each kind: what it has beside its metadata, a change, and what is wrong with it.
CASES: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "StorageClass",
        {"provisioner": "a", "parameters": {"type": "fast"}},
        {"parameters": {"type": "slow"}},
        [f'parameters: Invalid value: {{"type":"slow"}}: {IMMUTABLE}'],
    ),
    (
        "VolumeAttachment",
        {"spec": {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}},
        {"spec": {"nodeName": "n2"}},
        [
            'spec: Invalid value: {"attacher":"a","source":{"persistentVolumeName":"v"},'
            f'"nodeName":"n2"}}: {IMMUTABLE}'
        ],
    ),
    (
        "VolumeAttachment",
        {"spec": {"attacher": "a", "nodeName": "n1", "source": {"persistentVolumeName": "v"}}},
        {"metadata": {"labels": {"a": "b"}}},
        [],
    ),
    (
        "CSIStorageCapacity",
        {"storageClassName": "fast", "nodeTopology": {"matchLabels": {"zone": "a"}}},
        {"storageClassName": "slow", "nodeTopology": {"matchLabels": {"zone": "b"}}},
        [
            f'nodeTopology: Invalid value: {{"matchLabels":{{"zone":"b"}}}}: {IMMUTABLE}',
            f'storageClassName: Invalid value: "slow": {IMMUTABLE}',
        ],
    ),
    ("CSIStorageCapacity", {"storageClassName": "fast"}, {"capacity": "1Gi"}, []),
    (
        "CSINode",
        {"spec": {"drivers": [DRIVER]}},
        {"spec": {"drivers": [{**DRIVER, "nodeID": "n2"}]}},
        ['spec.drivers: Invalid value: {"name":"csi.example.com","nodeID":"n2"}: ' + IMMUTABLE],
    ),
    (
        "CSINode",
        {"spec": {"drivers": [DRIVER]}},
        {"spec": {"drivers": [{**DRIVER, "allocatable": {"count": 9}}]}},
        [],
    ),
    (
        "CSINode",
        {"spec": {"drivers": [DRIVER]}},
        {"spec": {"drivers": [{**DRIVER, "name": "other.example.com", "nodeID": "n2"}]}},
        [],
    ),
    (
        "CSIDriver",
        {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Persistent"]}},
        {"spec": {"attachRequired": False, "volumeLifecycleModes": ["Ephemeral"]}},
        [
            f"spec.attachedRequired: Invalid value: false: {IMMUTABLE}",
            f'spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: {IMMUTABLE}',
        ],
    ),
    (
        "CSIDriver",
        {"spec": {"fsGroupPolicy": "None"}},
        {"spec": {"fsGroupPolicy": "Some"}},
        [
            'spec.fsGroupPolicy: Unsupported value: "Some": supported values: "File", "None", '
            '"ReadWriteOnceWithFSType"'
        ],
    ),
    (
        "CSIDriver",
        {"spec": {"volumeLifecycleModes": ["Eternal"]}},
        {"spec": {"requiresRepublish": True}},
        [
            'spec.volumeLifecycleModes: Unsupported value: "Eternal": supported values: '
            '"Persistent", "Ephemeral"'
        ],
    ),
]


@pytest.mark.parametrize(("kind", "content", "change", "wrong"), CASES)
def test_what_volumes_were_made_by_cannot_change(
    kind: str, content: dict[str, Any], change: dict[str, Any], wrong: list[str]
) -> None:
    namespace = {"namespace": "default"} if kind == "CSIStorageCapacity" else {}
    old = from_manifest(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": "one", **namespace},
            **content,
        }
    ).message
    new = apply_merge_patch(old, change).message
    assert [str(error) for error in validate(kind, new, old)] == wrong


VOLUME = {
    "capacity": {"storage": "1Gi"},
    "accessModes": ["ReadWriteOnce"],
    "volumeMode": "Filesystem",
    "volumeAttributesClassName": "gold",
    "csi": {"driver": "csi.example.com", "volumeHandle": "v1"},
    "nodeAffinity": {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            ]
        }
    },
}
OTHER_ZONE = {
    "required": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    }
}


def persistent_volume(spec: dict[str, Any]) -> AnyObject:
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "one"},
        "spec": {**spec, "persistentVolumeReclaimPolicy": "Retain"},
    }
    return from_manifest(manifest).message


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (
            {"csi": {"volumeHandle": "v2"}},
            [
                "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable "
                "after creation"
            ],
        ),
        ({"csi": {"controllerExpandSecretRef": {"name": "late", "namespace": "a"}}}, []),
        ({"volumeMode": "Block"}, [f'volumeMode: Invalid value: "Block": {IMMUTABLE}']),
        (
            {"nodeAffinity": OTHER_ZONE},
            [
                'nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":[{'
                '"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}: '
                f"{IMMUTABLE}, except for updating from beta label to GA"
            ],
        ),
        ({"volumeAttributesClassName": "silver"}, []),
        (
            {"volumeAttributesClassName": None},
            [
                "spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is "
                "forbidden"
            ],
        ),
    ],
)
def test_a_volume_stays_where_it_is(change: dict[str, Any], wrong: list[str]) -> None:
    old = persistent_volume(VOLUME)
    new = apply_merge_patch(old, {"spec": change}).message
    assert [str(error) for error in validate("PersistentVolume", new, old)] == wrong


def test_a_secret_for_expansion_that_a_volume_has_stays() -> None:
    secret = {"controllerExpandSecretRef": {"name": "first", "namespace": "a"}}
    volume = {**VOLUME, "csi": {"driver": "csi.example.com", "volumeHandle": "v1", **secret}}
    old = persistent_volume(volume)
    change = {"spec": {"csi": {"controllerExpandSecretRef": {"name": "second"}}}}
    new = apply_merge_patch(old, change).message
    (wrong,) = validate("PersistentVolume", new, old)
    assert wrong.path == "spec.persistentvolumesource"
    assert validate("PersistentVolume", old, old) == []
