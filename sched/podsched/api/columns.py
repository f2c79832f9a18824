"""Columns of tables, as Kubernetes' server and ``sched get`` show them.

As kube-apiserver's printers.go. Of a pod, sidecars count as containers, and what an init container
does is told until the pod is initialized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from podsched.api.conditions import DISRUPTION_TARGET, POD_GROUP_SCHEDULED, is_finished
from podsched.api.hollow_nodes import is_hollow
from podsched.api.objects import seconds_of, seconds_of_event
from podsched.api.resources import is_sidecar
from podsched.lib.ages import age

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"


class Show(Enum):
    """When a column is shown."""

    ALWAYS = auto()
    WIDE = auto()
    NEVER = auto()


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, and a function from an object and the time to the cell.

    kubectl, sched: when kubectl and ``sched get`` show it. usual: what most cells say; a terminal
    that is too narrow goes without the column if all do.
    """

    name: str
    cell: Callable[[Any, float], Any]
    kubectl: Show = Show.ALWAYS
    sched: Show = Show.ALWAYS
    form: str = ""
    usual: str = ""


def wide(name: str, cell: Callable[[Any, float], Any], usual: str = "", form: str = "") -> Column:
    """Return a column of ``-o wide``."""
    return Column(name, cell, Show.WIDE, Show.WIDE, form, usual)


def of_kubectl(name: str, cell: Callable[[Any, float], Any], show: Show = Show.ALWAYS) -> Column:
    """Return a column that ``sched get`` does not show."""
    return Column(name, cell, show, Show.NEVER)


def of_sched(
    name: str, cell: Callable[[Any, float], Any], show: Show = Show.ALWAYS, usual: str = ""
) -> Column:
    """Return a column that only ``sched get`` has."""
    return Column(name, cell, Show.NEVER, show, usual=usual)


def since(stamp: Any, now: float) -> str:
    """Return how long ago a time was."""
    return age(now - stamp.seconds - stamp.nanos / 1e9) if stamp.seconds else UNKNOWN


def _created(obj: Any, now: float) -> str:
    return since(obj.metadata.creation_timestamp, now)


NAME: Final = Column("Name", lambda o, _: o.metadata.name, form="name")
AGE: Final = Column("Age", _created)
#: Of kinds whose table in Kubernetes has no column "Age".
OWN_AGE: Final = of_sched("AGE", _created)
CREATED: Final = (of_kubectl("Created At", _created), OWN_AGE)


def table(*columns: Column) -> tuple[Column, ...]:
    """Return a table's columns: the name first, and the age before those of ``-o wide``."""
    places = (place for place, one in enumerate(columns) if one.kubectl is Show.WIDE)
    first_wide = next(places, len(columns))
    return (NAME, *columns[:first_wide], AGE, *columns[first_wide:])


def phase(obj: Any, _: float) -> str:
    """Return the phase of an object, or that it is being deleted."""
    return "Terminating" if obj.metadata.HasField("deletion_timestamp") else obj.status.phase


def equals(labels: Mapping[str, str]) -> str:
    """Return labels as a selector."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


# ------------------------------------------------------------------ nodes


def node_status(node: Any, _: float = 0.0) -> str:
    """Return whether a node is ready, and whether it is cordoned."""
    ready = [c.status for c in node.status.conditions if c.type == "Ready"]
    text = {"True": "Ready", "": "Unknown"}.get(ready[0] if ready else "", "NotReady")
    return f"{text},SchedulingDisabled" if node.spec.unschedulable else text


_ROLE: Final = "node-role.kubernetes.io/"


def node_roles(node: Any, _: float) -> str:
    """Return the roles in a node's labels, and "hollow" of a node on which nothing runs."""
    roles = sorted(key[len(_ROLE) :] for key in node.metadata.labels if key.startswith(_ROLE))
    if is_hollow(node):
        roles.append("hollow")
    return ",".join(filter(None, roles)) or NONE


def node_address(kind: str) -> Callable[[Any, float], str]:
    """Return the cell of an address of a kind."""
    return lambda node, _: next((a.address for a in node.status.addresses if a.type == kind), NONE)


def node_kernel(node: Any, _: float) -> str:
    """Return its kernel and architecture."""
    info = node.status.node_info
    if not info.kernel_version:
        return UNKNOWN
    return (
        f"{info.kernel_version} ({info.architecture})" if info.architecture else info.kernel_version
    )


def node_version(node: Any, _: float) -> str:
    """Return its kubelet's version, or "hollow"."""
    return "hollow" if is_hollow(node) else node.status.node_info.kubelet_version or NONE


def node_taints(node: Any, _: float) -> str:
    """Return its taints as ``sched taint`` takes them."""
    shown = [
        f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}"
        for t in node.spec.taints
    ]
    return ",".join(shown) or NONE


def allocatable(resource: str) -> Callable[[Any, float], str]:
    """Return the cell of a node's allocatable resource."""
    return lambda node, _: node.status.allocatable.get(resource, "0")


# ------------------------------------------------------------------ pods


def pod_ready(pod: Any, _: float) -> str:
    """Return how many of its containers are ready."""
    sidecars = _sidecars(pod)
    ready = sum(
        status.ready and status.started
        for status in pod.status.init_container_statuses
        if status.name in sidecars
    )
    if not _initializing(pod):
        ready += sum(map(_is_ready, pod.status.container_statuses))
    return f"{ready}/{len(pod.spec.containers) + len(sidecars)}"


def pod_restarts(pod: Any, now: float) -> str:
    """Return how often its containers restarted, and how long ago; init containers while these run.

    Source: printPod of pkg/printers/internalversion/printers.go.
    """
    init, status = pod.status.init_container_statuses, pod.status
    shown = init
    if not _initializing(pod):
        sidecars = _sidecars(pod)
        shown = [*(one for one in init if one.name in sidecars), *status.container_statuses]
    count = sum(one.restart_count for one in shown)
    last = max((seconds_of(one.last_state.terminated.finished_at) for one in shown), default=0)
    return f"{count} ({age(now - last)} ago)" if count and last else str(count)


def pod_status(pod: Any, _: float = 0.0) -> str:
    """Return its phase, or a more specific reason."""
    if pod.metadata.HasField("deletion_timestamp"):
        if pod.status.reason == "NodeLost":
            return "Unknown"
        if not is_finished(pod):
            return "Terminating"
    reason = str(pod.status.reason or pod.status.phase or "Pending")
    if pod.spec.scheduling_gates and not pod.spec.node_name:
        reason = "SchedulingGated"
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            reason = condition.reason
    return _initializing(pod) or _of_containers(pod, reason)


def _of_containers(pod: Any, reason: str) -> str:
    """Return the status of an initialized pod; ``reason``: if its containers tell none."""
    failure = ""
    for status in reversed(pod.status.container_statuses):
        reason = _of_container(status) or reason
        if status.state.terminated.exit_code:
            failure = reason
    if reason != "Completed":
        return reason
    running = any(map(_is_ready, pod.status.container_statuses))
    if running and _has(pod, "Ready"):
        return "Running"
    return failure or ("NotReady" if running else reason)


def _initializing(pod: Any) -> str:
    """Return the state of the first unfinished init container; "" if all have finished."""
    if _has(pod, "Initialized"):
        return ""
    sidecars = _sidecars(pod)
    for number, status in enumerate(pod.status.init_container_statuses):
        ended = status.state.terminated if status.state.HasField("terminated") else None
        if ended is not None and not ended.exit_code:
            continue
        if status.name in sidecars and status.started:
            continue
        waits = status.state.waiting.reason
        if ended is None and waits in ("", "PodInitializing"):
            return f"Init:{number}/{len(pod.spec.init_containers)}"
        return f"Init:{_of_container(status)}"
    return ""


def _is_ready(status: Any) -> bool:
    return bool(status.ready and status.state.HasField("running"))


def _sidecars(pod: Any) -> set[str]:
    return {each.name for each in pod.spec.init_containers if is_sidecar(each)}


def _has(pod: Any, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)


def _of_container(status: Any) -> str:
    """Return why a container does not run; "" if it does."""
    state = status.state
    if state.waiting.reason:
        return str(state.waiting.reason)
    if state.HasField("terminated"):
        ended = state.terminated
        if ended.reason:
            return str(ended.reason)
        return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
    return ""


def pod_gates(pod: Any, _: float) -> str:
    """Return how many of its readiness gates are open."""
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    if not gates:
        return NONE
    true = {c.type for c in pod.status.conditions if c.status == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


# ------------------------------------------------------------------ owners of pods


def replicas(owner: Any, _: float = 0.0) -> int:
    """Return how many pods are wanted."""
    return int(owner.spec.replicas if owner.spec.HasField("replicas") else 1)


def containers_of(spec: Callable[[Any], Any], show: Show = Show.WIDE) -> tuple[Column, Column]:
    """Return the columns of the names and images of a pod's containers, by its spec."""

    def joined(owner: Any, name: str) -> str:
        return ",".join(getattr(each, name) for each in spec(owner).containers)

    return (
        of_kubectl("Containers", lambda owner, _: joined(owner, "name"), show),
        of_kubectl("Images", lambda owner, _: joined(owner, "image"), show),
    )


def _selector(owner: Any, _: float) -> str:
    """Return the selector of the pods of a workload, as kubectl writes it."""
    selector = owner.spec.selector
    parts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for each in selector.match_expressions:
        words = {"In": "in", "NotIn": "notin", "Exists": "", "DoesNotExist": "!"}
        word = words.get(each.operator, each.operator)
        values = f" {word} ({','.join(sorted(each.values))})" if word not in ("", "!") else ""
        parts.append(f"{word if word == '!' else ''}{each.key}{values}")
    return ",".join(sorted(parts)) or NONE


CONTAINERS: Final = containers_of(lambda owner: owner.spec.template.spec)
SELECTOR: Final = of_kubectl("Selector", _selector, Show.WIDE)
REPLICAS: Final = table(
    Column("Desired", replicas),
    of_kubectl("Current", lambda o, _: o.status.replicas),
    Column("Ready", lambda o, _: o.status.ready_replicas),
    *CONTAINERS,
)


def job_status(job: Any, _: float) -> str:
    """Return what became of a job."""
    found = {c.type for c in job.status.conditions if c.status == "True"}
    for state in ("Complete", "Failed"):
        if state in found:
            return state
    if job.metadata.HasField("deletion_timestamp"):
        return "Terminating"
    return next(
        (s for s in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if s in found), "Running"
    )


def job_completions(job: Any, _: float) -> str:
    """Return how many of a job's pods have succeeded, of how many."""
    if job.spec.HasField("completions"):
        return f"{job.status.succeeded}/{job.spec.completions}"
    parallel = job.spec.parallelism
    wanted = f"1 of {parallel}" if parallel > 1 else "1"
    return f"{job.status.succeeded}/{wanted}"


def job_duration(job: Any, now: float) -> str:
    """Return how long a job took, or has been running."""
    status = job.status
    if not status.HasField("start_time"):
        return ""
    end = status.completion_time.seconds if status.HasField("completion_time") else now
    return age(end - status.start_time.seconds)


def last_schedule(job: Any, now: float) -> str:
    """Return how long ago a CronJob started its last job."""
    stamp = job.status.last_schedule_time
    return since(stamp, now) if stamp.seconds else NONE


def scale_target(scaler: Any, _: float) -> str:
    """Return what an autoscaler scales."""
    target = scaler.spec.scale_target_ref
    return f"{target.kind}/{target.name}"


def scale_metrics(scaler: Any, _: float) -> str:
    """Return what is used now of the resources that an autoscaler watches, and what it aims at."""
    shown = []
    now = [*scaler.status.current_metrics]
    for number, metric in enumerate(scaler.spec.metrics):
        resource = _inside(metric.fields, "resource")
        target = _inside(resource, "target")
        measured = _inside(now[number].fields, "resource") if now[number:] else {}
        current = _inside(measured, "current")
        for field in ("averageUtilization", "averageValue"):
            if field in target:
                used = _amount(current[field]) if field in current else UNKNOWN
                name = resource["name"].string_value if "name" in resource else ""
                shown.append(f"{name}: {used}/{_amount(target[field])}")
                break
    return ", ".join(shown) or NONE


def _inside(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the fields of a part of a Struct; to ask for one that is missing would add it."""
    return fields[name].struct_value.fields if name in fields else {}


def _amount(value: Any) -> str:
    """Return a quantity as it is, a number as per cent."""
    return str(value.string_value) or f"{value.number_value:g}%"


# ------------------------------------------------------------------ endpoints

#: Max endpoints that are shown; of further ones only their number is.
_MOST_ENDPOINTS: Final = 3


def _first(items: Sequence[str], none: str) -> str:
    left = len(items) - _MOST_ENDPOINTS
    more = f" + {left} more..." if left > 0 else ""
    return ",".join(items[:_MOST_ENDPOINTS]) + more or none


def endpoints(item: Any, _: float) -> str:
    """Return the first addresses of Endpoints, with their ports."""
    found = []
    for subset in item.subsets:
        ports: Sequence[Any] = subset.ports or (None,)
        for port in ports:
            for address in subset.addresses:
                ip = f"[{address.ip}]" if ":" in address.ip else address.ip
                found.append(ip if port is None else f"{ip}:{port.port}")
    return _first(found, NONE)


def slice_ports(item: Any, _: float) -> str:
    """Return the ports of an EndpointSlice."""
    found = [str(port.port) if port.HasField("port") else "*" for port in item.ports]
    return _first(found, UNSET)


def slice_addresses(item: Any, _: float) -> str:
    """Return the first addresses of an EndpointSlice."""
    found = [address for endpoint in item.endpoints for address in endpoint.addresses]
    return _first(found, UNSET)


# ------------------------------------------------------------------ volumes

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
VOLUME_MODE: Final = wide("VolumeMode", lambda o, _: o.spec.volume_mode or UNSET)
ATTRIBUTES: Final = of_kubectl(
    "VolumeAttributesClass", lambda o, _: o.spec.volume_attributes_class_name or UNSET
)


def access_modes(modes: Sequence[str]) -> str:
    """Return access modes in short."""
    return ",".join(_MODES.get(mode, mode) for mode in dict.fromkeys(modes))


def volume_claim(volume: Any, _: float) -> str:
    """Return the claim that a volume is for."""
    ref = volume.spec.claim_ref
    return f"{ref.namespace}/{ref.name}" if ref.name else ""


def claim_capacity(claim: Any, _: float) -> str:
    """Return the capacity of a bound claim."""
    return claim.status.capacity.get("storage", "") if claim.spec.volume_name else ""


def claim_modes(claim: Any, _: float) -> str:
    """Return the access modes of a bound claim."""
    return access_modes(claim.status.access_modes) if claim.spec.volume_name else ""


# ------------------------------------------------------------------ groups of pods


def group_status(group: Any, _: float) -> str:
    """Return the status of a PodGroup."""
    found = {condition.type: condition for condition in group.status.conditions}
    disrupted, scheduled = found.get(DISRUPTION_TARGET), found.get(POD_GROUP_SCHEDULED)
    if disrupted is not None and disrupted.status == "True":
        return str(disrupted.reason)
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.status == "True" else str(scheduled.reason)


# ------------------------------------------------------------------ devices


def claim_state(claim: Any, _: float) -> str:
    """Return what came of a ResourceClaim."""
    is_deleted = claim.metadata.HasField("deletion_timestamp")
    states = ["deleted"] if is_deleted else []
    if claim.status.HasField("allocation"):
        states += ["allocated", "reserved"] if claim.status.reserved_for else ["allocated"]
    elif not is_deleted:
        states.append("pending")
    return ",".join(states)


# ------------------------------------------------------------------ others


def ports(service: Any, _: float) -> str:
    """Return the ports of a service, each with its port of the nodes."""
    return (
        ",".join(
            f"{p.port}{f':{p.node_port}' if p.node_port else ''}/{p.protocol or 'TCP'}"
            for p in service.spec.ports
        )
        or NONE
    )


def event_object(event: Any, _: float) -> str:
    """Return the object of an event."""
    ref = event.involved_object
    return f"{ref.kind.lower()}/{ref.name}" if ref.kind else ref.name


def event_source(event: Any, _: float) -> str:
    """Return the source of an event."""
    component = event.source.component or event.reporting_controller
    host = event.source.host or event.reporting_instance
    return f"{component}, {host}" if host else component


def last_seen(event: Any, now: float) -> str:
    """Return how long ago an event happened last."""
    last = seconds_of_event(event)
    return age(now - last) if last else UNKNOWN


def seen(stamp: Any, event: Any, now: float) -> str:
    """Return how long ago an event happened for the first or the last time."""
    return since(stamp if stamp.seconds else event.event_time, now)


BINDING: Final = table(
    Column("Role", lambda o, _: f"{o.role_ref.kind}/{o.role_ref.name}"),
    of_sched("SUBJECTS", lambda o, _: ",".join(f"{s.kind}/{s.name}" for s in o.subjects) or NONE),
)


def quota_used(*, limits: bool) -> Callable[[Any, float], str]:
    """Return the cell of used and hard amounts: of resources named "limits.", or of the others."""

    def cell(quota: Any, _: float) -> str:
        used, hard = quota.status.used, quota.spec.hard
        names = sorted(name for name in hard if name.startswith("limits.") == limits)
        return ", ".join(f"{name}: {used.get(name, '?')}/{hard[name]}" for name in names)

    return cell


def requested_duration(request: Any, _: float) -> str:
    """Return for how long a certificate is requested."""
    spec = request.spec
    return age(spec.expiration_seconds) if spec.HasField("expiration_seconds") else NONE


def request_state(request: Any, _: float) -> str:
    """Return whether a certificate is requested, approved, denied or issued."""
    types = {condition.type for condition in request.status.conditions}
    shown = ["Denied"] if "Denied" in types else ["Approved"] if "Approved" in types else []
    shown += ["Failed"] if "Failed" in types else []
    shown += ["Issued"] if request.status.certificate else []
    return ",".join(shown or ["Pending"])
