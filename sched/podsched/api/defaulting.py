"""Default values that the API server sets in new objects.

Source: pkg/apis/*/v1/defaults.go and the create strategies of pkg/registry. Pods have a module of
their own.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from podsched.api import objects as o
from podsched.api.device_claims import MOST_ALTERNATIVES, MOST_DEVICES, MOST_REQUESTS
from podsched.api.field_errors import FieldError
from podsched.api.kinds import kind_of
from podsched.api.kubelet_defaults import default_in_struct, default_template, template_of
from podsched.api.limit_ranges import default_limit_range
from podsched.api.metadata_defaulting import default_metadata
from podsched.api.owners import KUBERNETES_FINALIZER, own_labels_of_job
from podsched.api.pod_defaulting import default_pod
from podsched.api.priorities import PriorityClasses
from podsched.api.queue_labels import (
    LEAST_PARALLELISM,
    MAX_EXEC_TIME,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
    QUEUE_NAME,
    QUEUE_PRIORITY_CLASS,
)
from podsched.api.services import default_service
from podsched.api.validation.rbac import RBAC_GROUP, SERVICE_ACCOUNT

NAMESPACE_ACTIVE, NAMESPACE_TERMINATING = "Active", "Terminating"
JOB_UID_LABEL = "batch.kubernetes.io/controller-uid"
NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def default_object(
    message: o.AnyObject, *, now: float, uid: str, priority_classes: PriorityClasses
) -> list[FieldError]:
    """Fill in defaults of a new object of any kind, in place; return what admission forbids.

    ``now`` is Unix time in seconds. ``uid`` must be random: generated names derive from it.
    """
    if isinstance(message, o.Pod):
        return default_pod(message, now=now, uid=uid, priority_classes=priority_classes)
    default_metadata(message, now=now, uid=uid)
    for path, value in kind_of(message).defaults.items():
        _set_default(message, path, value)
    if not isinstance(message, o.ReplicationController) and (template := template_of(message)):
        default_template(template)
    if (fill := _FILL.get(type(message))) is not None:
        fill(message)
    if isinstance(message, o.ResourceSlice):
        for device in message.spec.devices[:MOST_DEVICES]:
            _stamp(device.taints, now)
    elif isinstance(message, o.DeviceTaintRule):
        _stamp([message.spec.taint], now)
    return []


def _set_default(message: Any, path: str, value: object) -> None:
    """Set a field that is not set; for a string, "" counts as not set."""
    *above, name = path.split(".")
    for part in above:
        message = getattr(message, part)
    if not (getattr(message, name) if isinstance(value, str) else message.HasField(name)):
        setattr(message, name, value)


def _fill_namespace(item: o.Namespace) -> None:
    """Set its phase Active, its finalizer, and the label with its name."""
    item.metadata.labels[NAMESPACE_NAME_LABEL] = item.metadata.name
    item.status.phase = NAMESPACE_ACTIVE
    if KUBERNETES_FINALIZER not in item.spec.finalizers:
        item.spec.finalizers.append(KUBERNETES_FINALIZER)


def _fill_node(item: o.Node) -> None:
    """Set allocatable to capacity if it is missing."""
    if not item.status.allocatable:
        item.status.allocatable.update(item.status.capacity)


def _fill_lease(item: o.Lease) -> None:
    # Kubernetes drops these where coordinated leader election is off, and nothing appoints here.
    item.spec.ClearField("strategy")
    item.spec.ClearField("preferred_holder")


def _fill_stateful_set(item: o.StatefulSet) -> None:
    """Fill in how its pods are updated and removed."""
    update = item.spec.update_strategy
    default_in_struct(update, "type", "RollingUpdate")
    if update["type"] == "RollingUpdate":
        default_in_struct(update.get_or_create_struct("rollingUpdate"), "partition", 0)
    for event in ("whenDeleted", "whenScaled"):
        default_in_struct(item.spec.persistent_volume_claim_retention_policy, event, "Retain")


def _fill_rolling(update: o.UpdateStrategy, *most: str) -> None:
    """Fill in how many pods a rolling update may miss, and have too many."""
    rolling = update.rolling_update
    for name, value in zip(("max_unavailable", "max_surge"), most, strict=True):
        if update.type == "RollingUpdate" and not rolling.HasField(name):
            setattr(rolling, name, value)


def _fill_job(item: o.Job) -> None:
    """Fill in how often pods run and fail, and select them by the job's uid."""
    spec = item.spec
    if not spec.HasField("parallelism"):
        if not spec.HasField("completions"):
            spec.completions = 1
        spec.parallelism = 1
    by_index, has_policy = (
        spec.HasField(name) for name in ("backoff_limit_per_index", "pod_failure_policy")
    )
    if not spec.HasField("backoff_limit"):
        spec.backoff_limit = 2**31 - 1 if by_index else 6
    if not spec.HasField("pod_replacement_policy"):
        spec.pod_replacement_policy = "Failed" if has_policy else "TerminatingOrFailed"
    for condition in (c for rule in spec.pod_failure_policy.rules for c in rule.on_pod_conditions):
        condition.status = condition.status or "True"
    if not spec.manual_selector:
        _select_pods_of_job(item)
    if not item.metadata.labels:
        item.metadata.labels.update(spec.template.metadata.labels)


def default_queued_job(item: o.Job) -> None:
    """Let the pods of a new Job with the label of a queue join it, in place.

    They are one group if all of them run at the same time. ``suspend`` is unset, which Kueue does
    when it admits a Job: here its pods wait for that.
    """
    spec, labels = item.spec, item.metadata.labels
    if QUEUE_NAME not in labels:
        return
    spec.suspend = False
    template = spec.template.metadata
    for key in (QUEUE_NAME, QUEUE_PRIORITY_CLASS, MAX_EXEC_TIME):
        if key in labels and key not in template.labels:
            template.labels[key] = labels[key]
    alone = not spec.template.spec.HasField("scheduling_group")
    together = spec.parallelism > 1 and spec.completions in (0, spec.parallelism)
    if alone and together and QUEUE_GROUP_NAME not in template.labels:
        template.labels[QUEUE_GROUP_NAME] = item.metadata.name
        least = item.metadata.annotations.get(LEAST_PARALLELISM, "")
        fewer = least.isdecimal() and 0 < int(least[:9]) < spec.parallelism
        template.annotations[QUEUE_GROUP_COUNT] = least if fewer else str(spec.parallelism)


def _select_pods_of_job(item: o.Job) -> None:
    labels = item.spec.template.metadata.labels
    labels.update({**own_labels_of_job(item), **labels})
    if not item.spec.HasField("selector"):
        item.spec.selector.match_labels[JOB_UID_LABEL] = item.metadata.uid


def _fill_endpoints(item: o.Endpoints) -> None:
    for subset in item.subsets:
        for port in subset.ports:
            port.protocol = port.protocol or "TCP"


def _fill_endpoint_slice(item: o.EndpointSlice) -> None:
    for port in item.ports:
        port.name = port.name or ""
        port.protocol = port.protocol or "TCP"


def _fill_secret(item: o.Secret) -> None:
    """Move ``stringData`` into ``data``."""
    for key, text in item.string_data.items():
        item.data[key] = base64.b64encode(text.encode()).decode()
    item.ClearField("string_data")


def _fill_autoscaler(item: o.HorizontalPodAutoscaler) -> None:
    """Aim at 80 % of the requested cpu if nothing else is said."""
    if not item.spec.metrics:
        metric = item.spec.metrics.add()
        metric["type"] = "Resource"
        resource = metric.get_or_create_struct("resource")
        resource["name"] = "cpu"
        target = resource.get_or_create_struct("target")
        target["type"], target["averageUtilization"] = "Utilization", 80


def _fill_replication_controller(item: o.ReplicationController) -> None:
    """Select the pods by the labels of the template."""
    if not item.spec.selector:
        item.spec.selector.update(item.spec.template.metadata.labels)


def _fill_volume(item: o.PersistentVolume) -> None:
    if not item.status.HasField("last_phase_transition_time"):
        item.status.last_phase_transition_time.CopyFrom(item.metadata.creation_timestamp)


def _fill_csi_driver(item: o.CSIDriver) -> None:
    if not item.spec.volume_lifecycle_modes:
        item.spec.volume_lifecycle_modes.append("Persistent")


def _fill_role_binding(item: o.RoleBinding | o.ClusterRoleBinding) -> None:
    """Fill in API groups and namespaces."""
    for subject in item.subjects:
        if subject.kind == SERVICE_ACCOUNT:
            # Within a namespace, its own accounts are meant.
            subject.namespace = subject.namespace or item.metadata.namespace
        else:
            subject.api_group = subject.api_group or RBAC_GROUP


def _fill_requests(spec: o.ResourceClaimSpec) -> None:
    """Fill in that one device is asked for, and how tolerations compare."""
    for request in spec.devices.requests[:MOST_REQUESTS]:
        exactly = (request.exactly,) if request.HasField("exactly") else ()
        for asked in (*exactly, *request.first_available[:MOST_ALTERNATIVES]):
            asked.allocation_mode = asked.allocation_mode or "ExactCount"
            if asked.allocation_mode == "ExactCount":
                asked.count = asked.count or 1
            _fill_tolerations(asked.tolerations)


def _fill_tolerations(tolerations: Iterable[o.Toleration]) -> None:
    for toleration in tolerations:
        toleration.operator = toleration.operator or "Equal"


def default_claim_status(new: o.ResourceClaim, old: o.ResourceClaim) -> None:
    """Complete a new status of a claim, in place; drop that of devices that are deallocated."""
    results, before = new.status.allocation.devices.results, old.status.allocation.devices.results
    for result in results:
        _fill_tolerations(result.tolerations)
    freed = {_device_of(result) for result in before} - {_device_of(result) for result in results}
    kept = [device for device in new.status.devices if _device_of(device) not in freed]
    if len(kept) < len(new.status.devices):
        del new.status.devices[:]
        new.status.devices.extend(kept)


def _device_of(part: Any) -> tuple[str, str, str]:
    return (part.driver, part.pool, part.device)


def _fill_slice(item: o.ResourceSlice) -> None:
    """Fill in missing amounts, which are 0, and drop what is behind gates.

    Kubernetes drops it while DRAListTypeAttributes and DRANodeAllocatableResources are off.
    """
    _fill_counters(item.spec.shared_counters)
    for device in item.spec.devices[:MOST_DEVICES]:
        for capacity in device.capacity.values():
            capacity.value = capacity.value or "0"
        _fill_counters(device.consumes_counters)
        device.ClearField("node_allocatable_resource_mappings")
        for attribute in device.attributes.values():
            for name in ("int_values", "bool_values", "string_values", "version_values"):
                attribute.ClearField(name)


def _fill_counters(sets: Iterable[o.CounterSet | o.DeviceCounterConsumption]) -> None:
    for each in sets:
        for counter in each.counters.values():
            counter.value = counter.value or "0"


def _fill_weight(item: o.ClusterQueue | o.LocalQueue | o.Cohort) -> None:
    """Fill in the weight of a queue or cohort that says that it takes part in fair sharing."""
    if item.spec.HasField("fair_sharing") and not item.spec.fair_sharing.HasField("weight"):
        item.spec.fair_sharing.weight = "1"


def _stamp(taints: Iterable[o.Taint], now: float) -> None:
    """Set the time of taints that have none."""
    for taint in taints:
        if not taint.HasField("time_added"):
            taint.time_added.CopyFrom(o.timestamp(now, whole=True))


def default_taint_rule(new: o.DeviceTaintRule, old: o.DeviceTaintRule, now: float) -> None:
    """Let the time of a changed rule's taint be that of its effect, in place."""
    taint, before = new.spec.taint, old.spec.taint
    if taint.effect != before.effect and taint.time_added == before.time_added:
        taint.time_added.CopyFrom(o.timestamp(now, whole=True))


#: What else is filled in beside the values in the register of kinds, by message.
_FILL: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    o.Namespace: _fill_namespace,
    o.Node: _fill_node,
    o.Lease: _fill_lease,
    o.PodDisruptionBudget: lambda item: item.ClearField("status"),
    o.Service: default_service,
    o.StatefulSet: _fill_stateful_set,
    o.ReplicationController: _fill_replication_controller,
    o.Deployment: lambda item: _fill_rolling(item.spec.strategy, "25%", "25%"),
    o.DaemonSet: lambda item: _fill_rolling(item.spec.update_strategy, "1", "0"),
    o.Job: _fill_job,
    o.HorizontalPodAutoscaler: _fill_autoscaler,
    o.Endpoints: _fill_endpoints,
    o.EndpointSlice: _fill_endpoint_slice,
    o.Secret: _fill_secret,
    o.PersistentVolume: _fill_volume,
    o.CSIDriver: _fill_csi_driver,
    o.RoleBinding: _fill_role_binding,
    o.ClusterRoleBinding: _fill_role_binding,
    o.LimitRange: default_limit_range,
    o.ResourceClaim: lambda item: _fill_requests(item.spec),
    o.ResourceClaimTemplate: lambda item: _fill_requests(item.spec.spec),
    o.ResourceSlice: _fill_slice,
    o.ClusterQueue: _fill_weight,
    o.LocalQueue: _fill_weight,
    o.Cohort: _fill_weight,
}
