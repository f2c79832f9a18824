"""Objects as a kube-apiserver sends them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.api.resources import requests_in_units
from podsched.serve.kube.objects import UnreadableObjectError, read_object

SUPPORT = Path(__file__).parents[2] / "support"
POD: dict[str, Any] = {
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u",
        "resourceVersion": "12",
        "creationTimestamp": "2024-01-02T03:04:05Z",
        "labels": {"app": "web"},
    },
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
        "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 0}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone", "namespaceSelector": {}, "labelSelector": None}
                ]
            }
        },
        "priority": 0,
        "overhead": {"cpu": 1},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    },
    "status": {"phase": "Pending", "startTime": "2024-01-02T03:04:05.123456Z"},
}


def read(content: dict[str, Any]) -> Pod:
    message = read_object(KINDS["Pod"], content)
    assert isinstance(message, Pod)
    return message


def test_a_pod_reads_as_its_manifest_does() -> None:
    """Presence included: an empty selector is not an absent one."""
    assert read(POD) == from_manifest({"apiVersion": "v1", "kind": "Pod", **POD}).message


def test_a_cluster_queue_that_was_applied_as_v1beta1_reads_as_one_of_v1beta2() -> None:
    """A CustomResourceDefinition that converts nothing shows it as v1beta2 with its old fields."""
    queue: dict[str, Any] = {"kind": "ClusterQueue", "metadata": {"name": "team"}}
    former = {"cohort": "all", "flavorFungibility": {"whenCanBorrow": "Borrow"}}
    spec = {"cohortName": "all", "flavorFungibility": {"whenCanBorrow": "MayStopSearch"}}
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", **queue, "spec": spec}
    read = read_object(KINDS["ClusterQueue"], {**queue, "spec": former})
    assert read == from_manifest(manifest).message


@pytest.mark.parametrize(
    "kind", ["DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"]
)
def test_devices_read_as_their_manifests_do(kind: str) -> None:
    """Parameters for drivers included, which the scheduler writes into allocations."""
    seeds = yaml.safe_load_all((SUPPORT / "fuzz_seeds.yaml").read_text())
    (*found,) = (seed for seed in seeds if seed["kind"] == kind)
    assert found
    for seed in found:
        assert read_object(KINDS[kind], seed) == from_manifest(seed).message


def test_a_pod_that_is_resized_counts_what_its_kubelet_has_given_it() -> None:
    """Of each container the most of spec, allocated and used; of an infeasible resize not spec."""
    given = {"requests": {"cpu": "2", "memory": "1Gi"}}
    status = {"name": "c", "allocatedResources": {"cpu": 3, "memory": "1Gi"}, "resources": given}
    pod = {**POD, "status": {**POD["status"], "containerStatuses": [status]}}
    assert requests_in_units(read(pod)) == {"cpu": 4000, "memory": 1 << 30}  # overhead: 1
    wanted = {"name": "c", "resources": {"requests": {"cpu": "9", "memory": "1Gi"}}}
    pod["spec"] = {**POD["spec"], "containers": [wanted]}
    assert requests_in_units(read(pod))["cpu"] == 10_000
    pod["status"]["conditions"] = [
        {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    ]
    assert requests_in_units(read(pod))["cpu"] == 4000


def versions(uid: str = "u", generation: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a pod, and the same bound, with the metadata given and with another priority."""
    first = {**POD, "metadata": {**POD["metadata"], "generation": 1}}
    metadata = {**POD["metadata"], "uid": uid, "generation": generation, "labels": {"app": "db"}}
    spec = {**POD["spec"], "nodeName": "n", "priority": 5}
    return first, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def test_the_spec_of_a_generation_is_converted_once() -> None:
    first, second = versions()
    message = read_object(KINDS["Pod"], second, read(first))
    assert isinstance(message, Pod)
    assert (message.spec.priority, message.spec.node_name) == (0, "n")
    message.spec.priority = 5
    assert message == read(second)


@pytest.mark.parametrize(
    "changed", [{"uid": "another"}, {"generation": 2}, {"generation": 0}], ids=str
)
def test_the_spec_of_another_generation_or_pod_is_converted(changed: dict[str, Any]) -> None:
    first, second = versions(**changed)
    assert read_object(KINDS["Pod"], second, read(first)) == read(second)


def test_without_generations_the_spec_is_converted() -> None:
    _, second = versions(generation=0)
    assert read_object(KINDS["Pod"], second, read(POD)) == read(second)


def test_unknown_fields_are_ignored() -> None:
    newer = {**POD, "spec": {**POD["spec"], "fieldOfTomorrow": {"a": [1]}}, "other": 1}
    assert read(newer) == read(POD)


def test_what_no_decision_reads_is_left_out() -> None:
    container = {**POD["spec"]["containers"][0], "env": [{"name": "A"}], "livenessProbe": {"a": 1}}
    metadata = {
        **POD["metadata"],
        "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{...}"},
    }
    full = {**POD, "metadata": metadata, "spec": {**POD["spec"], "containers": [container]}}
    assert read(full) == read(POD)


@pytest.mark.parametrize(
    "content",
    [
        {"spec": {"containers": [{"name": 1}]}},
        {"spec": "text"},
        {"spec": {"containers": {"name": "c"}}},
        {"metadata": {"creationTimestamp": "yesterday"}},
        {"spec": {"priority": 2**40}},
    ],
)
def test_what_is_no_pod_is_an_error(content: dict[str, Any]) -> None:
    with pytest.raises(UnreadableObjectError, match="no Pod: "):
        read(content)
