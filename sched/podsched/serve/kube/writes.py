"""Builds the bodies of a scheduler's writes to a Kubernetes cluster. Pure.

Statuses are strategic merge patches, as kube-scheduler sends them: conditions are merged by type.
Every patch of a pod carries its uid, so that it fails on another pod of the same name.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import format_time
from podsched.api.conditions import condition_of
from podsched.api.objects import Event, Pod, PodCondition
from podsched.v1 import api_pb2 as v1
from podsched.v1.objects_pb2 import ObjectReference


def binding(wanted: v1.Binding) -> dict[str, Any]:
    """Return the Binding object."""
    metadata: dict[str, Any] = {"name": wanted.name, "namespace": wanted.namespace}
    if wanted.uid:
        metadata["uid"] = wanted.uid
    if wanted.annotations:
        metadata["annotations"] = dict(wanted.annotations)
    target = {"kind": "Node", "name": wanted.node_name}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def status_patch(wanted: v1.PodStatusPatch, known: Pod | None, now: Timestamp) -> dict[str, Any]:
    """Return the patch of a pod's status; ``known``: the pod as it was last seen, if it was."""
    status: dict[str, Any] = {}
    if wanted.conditions:
        status["conditions"] = [_condition(c, known, now) for c in wanted.conditions]
    if wanted.HasField("nominated_node_name"):
        status["nominatedNodeName"] = wanted.nominated_node_name or None
    return _of_pod(wanted.uid, status)


def condition_patch(condition: PodCondition, uid: str, now: Timestamp) -> dict[str, Any]:
    """Return the patch that adds a condition to a pod that is about to be deleted."""
    return _of_pod(uid, {"conditions": [_condition(condition, None, now)]})


def _of_pod(uid: str, status: dict[str, Any]) -> dict[str, Any]:
    return {**({"metadata": {"uid": uid}} if uid else {}), "status": status}


def _condition(wanted: PodCondition, known: Pod | None, now: Timestamp) -> dict[str, Any]:
    # Empty fields are null, so that no value of the previous condition remains.
    content: dict[str, Any] = {
        "type": wanted.type,
        "status": wanted.status,
        "reason": wanted.reason or None,
        "message": wanted.message or None,
    }
    generation = known.metadata.generation if known is not None else 0
    if wanted.observed_generation or generation:
        content["observedGeneration"] = wanted.observed_generation or generation
    before = condition_of(known.status, wanted.type) if known is not None else None
    if before is None or before.status != wanted.status:
        content["lastTransitionTime"] = format_time(Timestamp(seconds=now.seconds))
    return content


def delete_options(request: v1.EvictRequest | v1.DeleteRequest) -> dict[str, Any]:
    """Return the DeleteOptions of an eviction or a deletion."""
    wanted, preconditions = request.preconditions, {}
    if wanted.uid:
        preconditions["uid"] = wanted.uid
    if wanted.resource_version:
        preconditions["resourceVersion"] = str(wanted.resource_version)
    options: dict[str, Any] = {"preconditions": preconditions} if preconditions else {}
    if request.HasField("grace_period_seconds"):
        options["gracePeriodSeconds"] = request.grace_period_seconds
    return options


def eviction(request: v1.EvictRequest) -> dict[str, Any]:
    """Return the Eviction object."""
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": request.name, "namespace": request.namespace},
        "deleteOptions": delete_options(request),
    }


def object_patch(request: v1.PatchRequest) -> dict[str, Any]:
    """Return a patch with its preconditions, which Kubernetes takes from the patch's metadata."""
    patch: dict[str, Any] = json.loads(request.merge_patch)
    metadata = dict(patch.get("metadata") or {})
    if request.resource_version:
        metadata["resourceVersion"] = str(request.resource_version)
    if request.uid:
        metadata["uid"] = request.uid
    return {**patch, "metadata": metadata} if metadata else patch


def event(recorded: Event) -> dict[str, Any]:
    """Return an event of events.k8s.io/v1, without the deprecated fields."""
    related = {"related": _reference(recorded.related)} if recorded.HasField("related") else {}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": recorded.metadata.name,
            "namespace": recorded.metadata.namespace or "default",
        },
        "eventTime": _micro_time(recorded.event_time),
        "reportingController": recorded.reporting_controller,
        "reportingInstance": recorded.reporting_instance,
        "action": recorded.action,
        "reason": recorded.reason,
        "regarding": _reference(recorded.involved_object),
        **related,
        "note": recorded.message,
        "type": recorded.type,
    }


def _reference(about: ObjectReference) -> dict[str, str]:
    return {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "namespace": about.namespace,
        "name": about.name,
        "uid": about.uid,
    }


def event_series(recorded: Event) -> dict[str, Any]:
    """Return the patch that records the repetition of an event."""
    observed = _micro_time(recorded.last_timestamp)
    return {"series": {"count": recorded.count, "lastObservedTime": observed}}


def micro_time(time: datetime) -> str:
    """Format a time as MicroTime with exactly six decimal digits, as Kubernetes requires."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def _micro_time(stamp: Timestamp) -> str:
    return micro_time(stamp.ToDatetime(tzinfo=UTC))
