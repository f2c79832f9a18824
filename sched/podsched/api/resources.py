"""What a pod asks of a node.

Source: k8s.io/component-helpers/resource (PodRequests, AggregateContainerRequests) and the
scheduler's PodInfo.CalculateResource, v1.36, with PodLevelResources, InPlacePodVerticalScaling and
InPlacePodLevelResourcesVerticalScaling on:

    max(containers + sidecars, the peak while init containers run)
        replaced by pod-level requests, resource by resource
        + overhead

Sums are exact; they are rounded up to integers once, at the end. Units: cpu in millicores, all else
in its own unit (bytes, devices).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from podsched.api import objects as o
from podsched.api import quantity

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGE_PAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
DEFAULT_MILLI_CPU_REQUEST = 100
DEFAULT_MEMORY_REQUEST = 200 * 1024 * 1024

Amounts = dict[str, Fraction]
"""Exact amounts by resource name."""

_NON_ZERO: Mapping[str, Fraction] = {
    CPU: Fraction(DEFAULT_MILLI_CPU_REQUEST, 1000),
    MEMORY: Fraction(DEFAULT_MEMORY_REQUEST),
}
_NON_ZERO_UNITS = {CPU: DEFAULT_MILLI_CPU_REQUEST, MEMORY: DEFAULT_MEMORY_REQUEST}


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """How requests are added up."""

    use_status: bool = True
    """Count what a running pod has been given (in-place resize), not its spec alone."""
    pod_level: bool = True
    """Let the pod's own requests replace those of its containers."""
    non_missing: Mapping[str, Fraction] | None = None
    """What a container counts that does not name the resource at all; an explicit 0 stays 0."""


_PLAIN = RequestOptions()


def is_pod_level_resource(name: str) -> bool:
    """Whether a pod as a whole can request the resource."""
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def amounts(quantities: Mapping[str, str]) -> Amounts:
    """Return the exact amounts of a map of quantities. Raises QuantityError."""
    return {name: quantity.parse(text) for name, text in quantities.items()}


def has_pod_level_requests(pod: o.Pod) -> bool:
    """Whether the pod as a whole requests something."""
    return any(is_pod_level_resource(name) for name in pod.spec.resources.requests)


def pod_requests(pod: o.Pod, options: RequestOptions = _PLAIN) -> Amounts:
    """Return everything the pod requests, exactly. Raises QuantityError."""
    statuses = _statuses(pod) if options.use_status else {}
    total = _aggregate(
        pod.spec,
        lambda container, runs: _container_amounts(
            pod, container, statuses if runs else {}, options
        ),
    )
    if options.pod_level and has_pod_level_requests(pod):
        level = _pod_level_requests(pod, options)
        # What the status alone names, as a kubelet reports it of the whole pod, replaces nothing.
        for name in filter(is_pod_level_resource, pod.spec.resources.requests):
            total[name] = level.get(name, Fraction(0))
    _add(total, amounts(pod.spec.overhead))
    return total


def container_requests(spec: o.PodSpec) -> Amounts:
    """Return what the containers of a spec request together. Raises QuantityError."""
    return _aggregate(spec, lambda container, _: amounts(container.resources.requests))


def container_limits(spec: o.PodSpec) -> Amounts:
    """Return what the containers of a spec are limited to together. Raises QuantityError."""
    return _aggregate(spec, lambda container, _: amounts(container.resources.limits))


def pod_limits(pod: o.Pod) -> Amounts:
    """Return everything the pod is limited to (PodLimits), exactly. Raises QuantityError.

    Overhead is added to what is limited at all.
    """
    total = container_limits(pod.spec)
    for name, amount in amounts(pod.spec.resources.limits).items():
        if is_pod_level_resource(name):
            total[name] = amount
    for name, amount in amounts(pod.spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return total


def _aggregate(spec: o.PodSpec, own: Callable[[o.Container, bool], Amounts]) -> Amounts:
    """Add up the containers: while they run, or while init containers do.

    own: amounts of one container, which may be changed; the flag says that it keeps running.
    """
    total: Amounts = {}
    for container in spec.containers:
        _add(total, own(container, True))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        if is_sidecar(container):
            mine = own(container, True)
            _add(total, mine)
            _add(sidecars, mine)
            _maximum(peak, sidecars)
        else:
            mine = own(container, False)
            _add(mine, sidecars)
            _maximum(peak, mine)
    _maximum(total, peak)
    return total


def is_sidecar(container: o.Container) -> bool:
    """Whether an init container keeps running beside the containers."""
    return container.restart_policy == "Always"


def _statuses(pod: o.Pod) -> dict[str, o.ContainerStatus]:
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return {}
    return {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}


def _container_amounts(
    pod: o.Pod,
    container: o.Container,
    statuses: Mapping[str, o.ContainerStatus],
    options: RequestOptions,
) -> Amounts:
    wanted = amounts(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.HasField("resources"):
        wanted = _resized(pod, wanted, status.resources, status.allocated_resources)
    for name, amount in (options.non_missing or {}).items():
        wanted.setdefault(name, amount)
    return wanted


def _pod_level_requests(pod: o.Pod, options: RequestOptions) -> Amounts:
    wanted = amounts(pod.spec.resources.requests)
    if options.use_status and pod.status.HasField("resources"):
        wanted = _resized(pod, wanted, pod.status.resources, pod.status.allocated_resources)
    return wanted


def _resized(
    pod: o.Pod, wanted: Amounts, actual: o.ResourceRequirements, allocated: Mapping[str, str]
) -> Amounts:
    """Return the most of what is wanted, used and allocated; an infeasible resize wants nothing."""
    result: Amounts = {} if is_resize_infeasible(pod) else dict(wanted)
    _maximum(result, amounts(actual.requests))
    _maximum(result, amounts(allocated))
    return result


def is_resize_infeasible(pod: o.Pod) -> bool:
    """Whether the node has said that a resize of the pod can never be done."""
    return any(
        c.type == "PodResizePending" and c.reason == "Infeasible" for c in pod.status.conditions
    )


def _add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _maximum(total: Amounts, other: Mapping[str, Fraction]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount


def to_units(exact: Mapping[str, Fraction]) -> dict[str, int]:
    """Round up to millicores for cpu and whole units for the rest, saturated at int64."""
    return {
        name: quantity.int64_away_from_zero(amount * 1000 if name == CPU else amount)
        for name, amount in exact.items()
    }


def requests_in_units(pod: o.Pod, options: RequestOptions = _PLAIN) -> dict[str, int]:
    """Return everything the pod requests: millicores for cpu, whole units for the rest."""
    units = _plain_requests(pod)
    if units is None:
        return to_units(pod_requests(pod, options))
    missing = to_units(options.non_missing) if options.non_missing else {}
    return {**missing, **units}


def _plain_requests(pod: o.Pod) -> dict[str, int] | None:
    """Return what a pod requests if that is what its only container does, as it is written.

    Most pods are such, and nothing has to be added up: a tenth of the time.
    """
    spec = pod.spec
    containers, statuses = spec.containers, pod.status.container_statuses
    if (
        len(containers) != 1
        or spec.init_containers
        or spec.overhead
        or (spec.HasField("resources") and spec.resources.requests)
        or (statuses and any(container.HasField("resources") for container in statuses))
    ):
        return None
    units = allocatable_in_units(containers[0].resources.requests)
    return units if min(units.values(), default=0) >= 0 else None


class RequestedAmounts(NamedTuple):
    """What a pod requests, and what it counts in scores: see the functions of these names."""

    requests: dict[str, int]
    nonzero: tuple[int, int]
    scored: dict[str, int]


def requested_amounts(pod: o.Pod) -> RequestedAmounts:
    """Return ``requests_in_units``, ``non_zero_requests`` and ``score_requests`` in one step."""
    requests = _plain_requests(pod)
    if requests is None:
        return RequestedAmounts(requests_in_units(pod), non_zero_requests(pod), score_requests(pod))
    # One dictionary for both where nothing is filled in: there may be many classes of pods.
    named = CPU in requests and MEMORY in requests
    scored = requests if named else {**_NON_ZERO_UNITS, **requests}
    return RequestedAmounts(requests, (scored[CPU], scored[MEMORY]), scored)


def allocatable_in_units(quantities: Mapping[str, str]) -> dict[str, int]:
    """Return a node's resources: millicores for cpu, whole units for the rest.

    Raises QuantityError.
    """
    # Not ``items()``: those of a message's map are Python's, and take half as long again.
    return {
        name: quantity.milli_value(quantities[name])
        if name == CPU
        else quantity.value(quantities[name])
        for name in quantities
    }


def readable_requests(pod: o.Pod) -> dict[str, int]:
    """Return ``requests_in_units``, or nothing if a quantity is invalid."""
    try:
        return requests_in_units(pod)
    except quantity.QuantityError:
        return {}


def readable_allocatable(node: o.Node) -> dict[str, int]:
    """Return ``allocatable_in_units``, or nothing if a quantity is invalid."""
    try:
        return allocatable_in_units(node.status.allocatable)
    except quantity.QuantityError:
        return {}


def non_zero_requests(pod: o.Pod) -> tuple[int, int]:
    """Return the millicores and bytes that a pod counts in scores (PodInfo.CalculateResource).

    Containers without requests count 100m and 200 MiB; with pod-level requests, only a resource
    that neither the pod nor a container names is filled in.
    """
    missing: Mapping[str, Fraction] = _NON_ZERO
    if has_pod_level_requests(pod):
        named = pod_requests(pod)
        missing = {name: least for name, least in _NON_ZERO.items() if name not in named}
    units = requests_in_units(pod, RequestOptions(non_missing=missing))
    return units.get(CPU, 0), units.get(MEMORY, 0)


def score_requests(pod: o.Pod) -> dict[str, int]:
    """Return what a pending pod counts in NodeResourcesFit's Score.

    Defaults are filled in, and pod-level requests left out.
    """
    return requests_in_units(pod, RequestOptions(pod_level=False, non_missing=_NON_ZERO))


def qos_class(spec: o.PodSpec) -> str:
    """Return Guaranteed, Burstable or BestEffort (k8s.io/component-helpers/.../qos)."""
    if spec.HasField("resources") and (spec.resources.requests or spec.resources.limits):
        return qos_class_of_containers([spec.resources])
    containers: Iterable[o.Container] = (*spec.containers, *spec.init_containers)
    return qos_class_of_containers([container.resources for container in containers])


def qos_class_of_containers(requirements: Iterable[o.ResourceRequirements | None]) -> str:
    """Return the class that follows from what containers require; None: nothing."""
    requested: Amounts = {}
    limited: Amounts = {}
    guaranteed = True
    for item in requirements:
        if item is None:
            guaranteed = False
            continue
        requests, limits = _compute(item.requests), _compute(item.limits)
        guaranteed = guaranteed and CPU in limits and MEMORY in limits
        if not requested and not limited:
            requested, limited = requests, limits  # of most pods, which have one container
            continue
        _add(requested, requests)
        _add(limited, limits)
    if not requested and not limited:
        return "BestEffort"
    if guaranteed and requested == limited:
        return "Guaranteed"
    return "Burstable"


def _compute(quantities: Mapping[str, str]) -> Amounts:
    found: Amounts = {}
    for name in (CPU, MEMORY):
        text = quantities.get(name)
        if text is not None and (amount := quantity.parse(text)).numerator > 0:
            found[name] = amount
    return found
