"""Manifests of former versions."""

from __future__ import annotations

import pytest

from podsched.api.manifest import ManifestError, from_manifest, load_documents, to_manifest

FORMER = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: q}
spec:
  cohort: all
  admissionChecks: [budget]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: q, namespace: d}
spec: {clusterQueue: q}
"""


def test_queues_of_v1beta1_are_read() -> None:
    queue, local = (from_manifest(each, strict=True).message for each in load_documents(FORMER))
    assert to_manifest(queue)["spec"] == {
        "cohortName": "all",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
    }
    assert to_manifest(local)["apiVersion"] == "kueue.x-k8s.io/v1beta2"


DEVICES = """
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: c, namespace: d}
spec:
  devices:
    requests:
    - {name: a, deviceClassName: gpu, count: 2, capacity: {requests: {memory: 1Gi}}}
    - {name: b, firstAvailable: [{name: x, deviceClassName: gpu}]}
    constraints: [{requests: [a], matchAttribute: example.com/x}]
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata: {name: t, namespace: d}
spec:
  metadata: {labels: {a: b}}
  spec: {devices: {requests: [{name: a, deviceClassName: gpu}]}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: example.com
  devices: [{name: d0}, {name: d1, basic: {attributes: {a: {string: b}}, nodeName: n}}]
---
apiVersion: resource.k8s.io/v1beta2
kind: ResourceClaim
metadata: {name: c, namespace: d}
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: resource.k8s.io/v1beta2
kind: DeviceTaintRule
metadata: {name: r}
"""


def test_devices_of_former_versions_are_read() -> None:
    """A real API server v1.36.2 that is given the same returns it like this as v1."""
    read = [
        to_manifest(from_manifest(each, strict=True).message) for each in load_documents(DEVICES)
    ]
    assert [each["apiVersion"] for each in read] == ["resource.k8s.io/v1"] * 4 + [
        "resource.k8s.io/v1beta2"
    ]
    claim, template, devices, same, _ = (each.get("spec") for each in read)
    capacity = {"requests": {"memory": "1Gi"}}
    assert claim["devices"]["requests"] == [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2, "capacity": capacity}},
        {"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]},
    ]
    requests = [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]
    assert template == {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"devices": {"requests": requests}},
    }
    assert devices["devices"] == [
        {"name": "d0"},
        {"name": "d1", "attributes": {"a": {"string": "b"}}, "nodeName": "n"},
    ]
    assert same == {"devices": {"requests": requests}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("ResourceClaim", "[]"),
        ("ResourceClaim", "{devices: 1}"),
        ("ResourceClaim", "{devices: {requests: {a: b}}}"),
        ("ResourceClaim", "{devices: {requests: [1]}}"),
        ("ResourceClaimTemplate", "{spec: 1}"),
        ("ResourceSlice", "{devices: [{name: a, basic: 1}]}"),
    ],
)
def test_a_former_device_manifest_with_a_mistake_is_refused_as_such(kind: str, spec: str) -> None:
    text = f"{{apiVersion: resource.k8s.io/v1beta1, kind: {kind}, spec: {spec}}}"
    (document,) = load_documents(text)
    with pytest.raises(ManifestError):
        from_manifest(document, strict=True)


@pytest.mark.parametrize("spec", ["[]", "{flavorFungibility: 1}", "{admissionChecks: {a: b}}"])
def test_a_former_manifest_with_a_mistake_is_refused_as_such(spec: str) -> None:
    text = f"{{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, spec: {spec}}}"
    (document,) = load_documents(text)
    with pytest.raises(ManifestError):
        from_manifest(document, strict=True)
