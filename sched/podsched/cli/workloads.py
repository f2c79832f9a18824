"""Reads the pods of manifests: pods themselves, and the pods that workloads would create."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from podsched.api.defaulting import default_queued_job
from podsched.api.manifest import ManifestError, from_manifest, to_manifest
from podsched.api.objects import AnyObject, Job, Pod
from podsched.api.queue_labels import QUEUE_NAME
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.manifests import read_known
from podsched.lib.counted import counted

#: Max pods of one command: to simulate more would take minutes.
MAX_PODS = 20_000

_REPLICATED = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_TEMPLATED = (*_REPLICATED, "Job")


class Workload(NamedTuple):
    """The pods in their order, and the objects that belong to them (owners, claims, ...)."""

    pods: list[Pod]
    others: list[AnyObject]


def read_workloads(filenames: Sequence[str], replicas: int | None = None) -> Workload:
    """Return the pods of manifests; ``replicas``: the number of pods of each template or pod.

    Exits if there is no pod, or if there are more than MAX_PODS.
    """
    count = 0

    def expand(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        nonlocal count
        kind = document.get("kind")
        if kind != "Pod" and kind not in _TEMPLATED:
            return [document]
        number = _replicas(document) if replicas is None else replicas
        count += number
        if count > MAX_PODS:
            fail(f"more than {MAX_PODS:,} pods", USAGE)
        if kind == "Pod":
            return list(_copies(document, number))
        return list(_expanded(document, number))

    found = read_known(filenames, "default", strict=False, expand=expand)
    if found.unknown:
        warn(f"skipped {counted(len(found.unknown), 'object')} of kinds that create no pods")
    pods = [obj for obj in found.objects if isinstance(obj, Pod)]
    if not pods:
        fail(f"{', '.join(filenames)}: no pod, and no workload that creates pods", USAGE)
    return Workload(pods, [obj for obj in found.objects if not isinstance(obj, Pod)])


def _replicas(document: Mapping[str, Any]) -> int:
    spec = document.get("spec")
    field = "parallelism" if document["kind"] == "Job" else "replicas"
    value = spec.get(field, 1) if isinstance(spec, Mapping) and document["kind"] != "Pod" else 1
    return value if isinstance(value, int) and value >= 0 else 1


def _copies(document: Mapping[str, Any], number: int) -> Iterator[Mapping[str, Any]]:
    if number == 1:
        yield document
        return
    for index in range(number):
        one = copy.deepcopy(dict(document))
        metadata = one.setdefault("metadata", {})
        if isinstance(metadata, dict):
            metadata["name"] = f"{metadata.get('name', 'pod')}-{index + 1}"
            metadata.pop("uid", None)
        yield one


def _expanded(document: Mapping[str, Any], number: int) -> Iterator[Mapping[str, Any]]:
    """Yield the owner as the scheduler sees it, and the pods that its controller would create."""
    document = _queued(document, number)
    kind, spec = document["kind"], document.get("spec")
    metadata = document.get("metadata")
    spec = spec if isinstance(spec, Mapping) else {}
    metadata = metadata if isinstance(metadata, Mapping) else {}
    template = spec.get("template")
    template = template if isinstance(template, Mapping) else {}
    name, namespace = str(metadata.get("name", "unnamed")), metadata.get("namespace", "default")
    # The pods of a Deployment belong to one of its ReplicaSets.
    owner = "ReplicaSet" if kind == "Deployment" else kind
    uid = f"simulated-{owner}-{namespace}-{name}"
    version = "batch/v1" if owner == "Job" else "apps/v1"
    version = "v1" if owner == "ReplicationController" else version
    if owner in ("ReplicaSet", "StatefulSet", "ReplicationController"):
        shown = {"name": name, "namespace": namespace, "uid": uid}
        kept = {"replicas": number, "selector": spec.get("selector"), "template": template}
        yield {"apiVersion": version, "kind": owner, "metadata": shown, "spec": kept}
    reference = {"apiVersion": version, "kind": owner, "name": name, "uid": uid, "controller": True}
    of_template = template.get("metadata")
    of_template = of_template if isinstance(of_template, Mapping) else {}
    claims = spec.get("volumeClaimTemplates") if kind == "StatefulSet" else None
    claims = [one for one in claims if isinstance(one, Mapping)] if isinstance(claims, list) else []
    for index in range(number):
        pod_name = f"{name}-{index}"
        pod_spec = copy.deepcopy(template.get("spec", {}))
        for claim in claims:
            yield _claim(claim, pod_name, namespace, pod_spec)
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod_name,
                "namespace": namespace,
                "labels": of_template.get("labels"),
                "annotations": of_template.get("annotations"),
                "ownerReferences": [reference],
            },
            "spec": pod_spec,
        }


def _queued(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return a Job in a queue as the API server stores it: its pods join the queue."""
    try:
        job = from_manifest(document).message if document["kind"] == "Job" else None
    except ManifestError:
        return document  # Its pods tell what is wrong.
    if not isinstance(job, Job) or QUEUE_NAME not in job.metadata.labels:
        return document
    together = job.spec.completions in (0, job.spec.parallelism or 1)
    # Only whether all run together matters.
    job.spec.parallelism, job.spec.completions = number, number + (not together)
    job.metadata.name = job.metadata.name or "unnamed"
    default_queued_job(job)
    return to_manifest(job)


def _claim(
    template: Mapping[str, Any], pod_name: str, namespace: str, pod_spec: Any
) -> Mapping[str, Any]:
    """Return the claim that a StatefulSet's pod gets, and add it to the pod's volumes."""
    metadata = template.get("metadata")
    volume = str(metadata.get("name", "data")) if isinstance(metadata, Mapping) else "data"
    name = f"{volume}-{pod_name}"
    if isinstance(pod_spec, dict):
        volumes = pod_spec.setdefault("volumes", [])
        if isinstance(volumes, list):
            volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": name}})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": template.get("spec", {}),
    }
