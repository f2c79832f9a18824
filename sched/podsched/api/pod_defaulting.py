"""What the API server fills in when a pod is created.

Source: pkg/apis/core/v1/defaults.go, the pod's create strategy, and the admission plugins Priority
and DefaultTolerationSeconds. Defaults that only a kubelet would read are left out (termination
message, service account and its volume, probes).

The defaulted spec of a pod is remembered by content: pods of one template are defaulted once. Of
pods that differ in the resources of their containers alone, the rest is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from podsched.api import objects as o
from podsched.api import quantity, resources
from podsched.api.conditions import FALSE, POD_SCHEDULED, REASON_SCHEDULING_GATED
from podsched.api.field_errors import FieldError
from podsched.api.metadata_defaulting import default_metadata
from podsched.api.priorities import PriorityClasses
from podsched.api.spec_parts import affinity_terms, give_resources, take_resources
from podsched.api.tolerations import NO_EXECUTE, TAINT_NOT_READY, TAINT_UNREACHABLE
from podsched.lib.remembering import remember_short

#: A quantity that cannot be read is validation's to report, with its path.
_UNKNOWN_CLASS = ""
DEFAULT_SCHEDULER = "default-scheduler"
DEFAULT_GRACE_PERIOD_SECONDS = 30
DEFAULT_TOLERATION_SECONDS = 300
# Caches count entries, and a decoded spec can be a hundred times as large as its bytes: of larger
# specs, which few pods share, nothing is remembered. Templates that take turns must all find room:
# of one too many, none is found again. A hundred templates with ten priorities are 1,000 specs.
_CACHE, _MOST_CACHED = 2048, 4096


class _DefaultedSpec(NamedTuple):
    """A spec with its defaults, encoded, and what is known of it.

    A message would take several times as much memory, and as long to copy as bytes to decode.
    """

    spec: bytes
    qos_class: str
    keyed_terms: bool
    gated: bool


def default_pod(
    pod: o.Pod, *, now: float, uid: str, priority_classes: PriorityClasses
) -> list[FieldError]:
    """Fill in everything a new pod lacks, in place; return what priority admission forbids.

    The status a client sends is dropped: a new pod is Pending.
    """
    default_metadata(pod, now=now, uid=uid)
    group = None
    if pod.spec.HasField("scheduling_group"):
        # No default depends on the group, and each gang has a name of its own. A message that is
        # cleared in its parent keeps its contents.
        group = pod.spec.scheduling_group
        pod.spec.ClearField("scheduling_group")
    known = _default_spec(pod.spec.SerializeToString(deterministic=True))
    pod.spec.ParseFromString(known.spec)
    if group is not None:
        pod.spec.scheduling_group.CopyFrom(group)
    if known.keyed_terms:
        merge_label_keys(pod.spec, pod.metadata.labels)
    errors = priority_classes.admit(pod.spec)
    pod.status.Clear()
    pod.status.phase = "Pending"
    pod.status.qos_class = known.qos_class
    if known.gated:
        pod.status.conditions.add(
            type=POD_SCHEDULED,
            status=FALSE,
            reason=REASON_SCHEDULING_GATED,
            message="Scheduling is blocked due to non-empty scheduling gates",
            last_transition_time=o.timestamp(now, whole=True),
        )
    return errors


@remember_short(_CACHE, _MOST_CACHED)
def _default_spec(content: bytes) -> _DefaultedSpec:
    spec = o.PodSpec.FromString(content)
    if spec.HasField("resources") or len(content) > _MOST_CACHED:
        return _defaulted(spec)
    # What a pod as a whole requests depends on its containers; nothing else here does.
    taken = take_resources(spec)
    bare = _default_bare_spec(spec.SerializeToString(deterministic=True))
    spec.ParseFromString(bare.spec)
    for found in taken:
        if found is not None:
            _default_requests(found)
    give_resources(spec, taken)
    try:
        own_class = resources.qos_class_of_containers(taken)
    except quantity.QuantityError:
        own_class = _UNKNOWN_CLASS
    return _DefaultedSpec(spec.SerializeToString(), own_class, bare.keyed_terms, bare.gated)


@lru_cache(_CACHE)
def _default_bare_spec(content: bytes) -> _DefaultedSpec:
    return _defaulted(o.PodSpec.FromString(content))


def _defaulted(spec: o.PodSpec) -> _DefaultedSpec:
    default_pod_spec(spec)
    if not spec.HasField("enable_service_links"):
        # Kubelets refuse pods without it. Kubernetes sets it for pods alone, not in templates.
        spec.enable_service_links = True
    add_default_tolerations(spec)
    return _DefaultedSpec(
        spec=spec.SerializeToString(),
        qos_class=_qos_or_nothing(spec),
        keyed_terms=any(t.match_label_keys or t.mismatch_label_keys for t in affinity_terms(spec))
        or any(constraint.match_label_keys for constraint in spec.topology_spread_constraints),
        gated=bool(spec.scheduling_gates),
    )


def _qos_or_nothing(spec: o.PodSpec) -> str:
    try:
        return resources.qos_class(spec)
    except quantity.QuantityError:
        return _UNKNOWN_CLASS


def set_qos_class(pod: o.Pod) -> None:
    """Set the class that follows from requests and limits, which have changed."""
    pod.status.qos_class = _qos_or_nothing(pod.spec)


def default_pod_spec(spec: o.PodSpec) -> None:
    """Fill in the defaults of a pod's spec, in place (SetDefaults_PodSpec and SetDefaults_Pod)."""
    default_template_spec(spec)
    for container in (*spec.containers, *spec.init_containers):
        _default_requests(container.resources)
        for port in container.ports if spec.host_network else ():
            port.host_port = port.host_port or port.container_port
    if spec.resources.limits or spec.resources.requests:
        _default_pod_level_resources(spec)


def default_template_spec(spec: o.PodSpec) -> None:
    """Fill in the defaults that the spec of a pod template has, too, in place.

    What follows from limits is left to each pod: whoever changes a limit means its request as well.
    """
    if account := spec.service_account_name or spec.service_account:
        # The second is the former name of the first.
        spec.service_account_name = spec.service_account = account
    spec.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
    spec.restart_policy = spec.restart_policy or "Always"
    spec.dns_policy = spec.dns_policy or "ClusterFirst"
    if not spec.HasField("termination_grace_period_seconds"):
        spec.termination_grace_period_seconds = DEFAULT_GRACE_PERIOD_SECONDS
    for container in (*spec.containers, *spec.init_containers, *spec.ephemeral_containers):
        _default_container(container)
    for volume in spec.volumes:
        _default_volume(volume)


def _default_container(container: o.Container) -> None:
    if not container.image_pull_policy and container.image:
        container.image_pull_policy = _pull_policy(container.image)
    for port in container.ports:
        port.protocol = port.protocol or "TCP"


def _default_requests(resources: o.ResourceRequirements) -> None:
    limits = resources.limits
    if limits:
        requests = resources.requests
        for name in limits:
            if name not in requests:
                requests[name] = limits[name]


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _default_volume(volume: o.Volume) -> None:
    if len(volume.ListFields()) == (1 if volume.name else 0):
        volume.empty_dir.SetInParent()
    if volume.HasField("iscsi"):
        volume.iscsi.iscsi_interface = volume.iscsi.iscsi_interface or "default"
    if volume.HasField("rbd"):
        volume.rbd.pool = volume.rbd.pool or "rbd"
        volume.rbd.user = volume.rbd.user or "admin"
        volume.rbd.keyring = volume.rbd.keyring or "/etc/ceph/keyring"
    if volume.HasField("ephemeral"):
        claim = volume.ephemeral.volume_claim_template.spec
        claim.volume_mode = claim.volume_mode or "Filesystem"


def _default_pod_level_resources(spec: o.PodSpec) -> None:
    """Set what the pod as a whole lacks, if it has requests or limits of its own.

    Limits of huge pages are those of its containers. If it has limits, requests of cpu and memory
    are those of its containers, else the limits.
    """
    try:
        requested = resources.container_requests(spec)
        limited = resources.container_limits(spec)
    except quantity.QuantityError:
        return
    requests, limits = spec.resources.requests, spec.resources.limits
    for name, amount in limited.items():
        is_huge = name.startswith(resources.HUGE_PAGES_PREFIX)
        if is_huge and name not in requests and name not in limits:
            limits[name] = quantity.format_quantity(amount)
    for name in (resources.CPU, resources.MEMORY):
        if limits and name in requested and name not in requests:
            requests[name] = quantity.format_quantity(requested[name])
    for name in limits:
        if name not in requests and resources.is_pod_level_resource(name):
            requests[name] = limits[name]


def add_default_tolerations(spec: o.PodSpec) -> None:
    """Tolerate nodes that are not ready or unreachable for five minutes, unless the pod says."""
    for taint in (TAINT_NOT_READY, TAINT_UNREACHABLE):
        if any(t.key in (taint, "") and t.effect in (NO_EXECUTE, "") for t in spec.tolerations):
            continue
        spec.tolerations.add(
            key=taint,
            operator="Exists",
            effect=NO_EXECUTE,
            toleration_seconds=DEFAULT_TOLERATION_SECONDS,
        )


def merge_label_keys(spec: o.PodSpec, labels: Mapping[str, str]) -> None:
    """Turn matchLabelKeys and mismatchLabelKeys into requirements of the label selectors.

    A requirement that a selector has already is not added again.
    """
    for term in affinity_terms(spec):
        if term.HasField("label_selector"):
            _add_requirements(term.label_selector, term.match_label_keys, "In", labels)
            _add_requirements(term.label_selector, term.mismatch_label_keys, "NotIn", labels)
    for constraint in spec.topology_spread_constraints:
        if constraint.HasField("label_selector"):
            keys = constraint.match_label_keys
            _add_requirements(constraint.label_selector, keys, "In", labels)


def _add_requirements(
    selector: o.LabelSelector, keys: Iterable[str], operator: str, labels: Mapping[str, str]
) -> None:
    for key in keys:
        if key in labels:
            own = o.LabelSelectorRequirement(key=key, operator=operator, values=[labels[key]])
            if own not in selector.match_expressions:
                selector.match_expressions.append(own)
