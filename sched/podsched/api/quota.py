"""What ResourceQuotas count, and when an object is too much for one.

Source: pkg/quota/v1 (evaluator/core/pods.go, generic/evaluator.go) and the admission plugin
ResourceQuota (plugin/pkg/admission/resourcequota/controller.go) of Kubernetes v1.36; the wording
is theirs.

    count/<resource>[.<group>]          objects, in whatever state
    configmaps, services, ...           the same, under the names that Kubernetes had first
    pods                                pods that are not terminal
    cpu, requests.cpu, limits.memory    what such pods request or are limited to
    requests.<extended resource>        likewise, of devices
    requests.storage                    what claims request; as <class>.storageclass.storage.k8s.io/
                                        requests.storage and .../persistentvolumeclaims by class
    services.nodeports, .loadbalancers  ports of the nodes and load balancers that Services have

A pod is terminal when it has succeeded or failed, or should have been gone by the end of its
grace period. Events are not counted. Pure: ``now`` is an argument, Unix time in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from podsched.api import objects as o
from podsched.api import quantity
from podsched.api.conditions import is_finished
from podsched.api.kinds import KINDS, Kind
from podsched.api.quota_scopes import PodScopes, expressions_of, is_in_scope
from podsched.api.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    Amounts,
    amounts,
    pod_limits,
    pod_requests,
)
from podsched.api.services import has_node_ports, may_have_node_ports
from podsched.api.storage_classes import CLASS_ANNOTATION

COUNT_PREFIX: Final = "count/"
_REQUESTS, _LIMITS = "requests.", "limits."
_COMPUTE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
#: Kinds that are counted under their plural as well; pods only while they are not terminal.
COUNTED_BY_NAME: Final = frozenset(
    {
        *("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas"),
        *("secrets", "services"),
    }
)
_NODE_PORTS, _LOAD_BALANCERS = "services.nodeports", "services.loadbalancers"
_CLAIMS: Final = "persistentvolumeclaims"
STORAGE: Final = "requests.storage"
#: After the name of a StorageClass, in front of what its claims use.
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_ONE: Final = Fraction(1)
#: What every container must name if a quota limits it.
_TO_BE_SPECIFIED: Final = frozenset(
    prefix + name for name in (CPU, MEMORY) for prefix in ("", _REQUESTS, _LIMITS)
)


def is_counted(kind: Kind) -> bool:
    """Return whether objects of a kind count at all."""
    return kind.namespaced and kind is not KINDS["Event"]


def is_quota_resource(name: str) -> bool:
    """Return whether a quota can limit this: whether usage is counted under such a name."""
    if name.startswith(COUNT_PREFIX) or name in COUNTED_BY_NAME:
        return True
    if name in (PODS, _NODE_PORTS, _LOAD_BALANCERS):
        return True
    if name == STORAGE or name.partition(_OF_CLASS)[2] in (STORAGE, _CLAIMS):
        return True
    bare = name.removeprefix(_REQUESTS)
    if bare in _COMPUTE or bare.startswith(HUGE_PAGES_PREFIX):
        return True
    return name.removeprefix(_LIMITS) in _COMPUTE or (bare != name and "/" in bare)


def usage_of(kind: Kind, message: o.AnyObject, now: float) -> Amounts:
    """Return what an object uses, by the names that quotas have for it. Raises QuantityError."""
    usage: Amounts = {COUNT_PREFIX + kind.resource: _ONE}
    if isinstance(message, o.Pod):
        if not is_terminal(message, now):
            usage |= _compute_usage(pod_requests(message), pod_limits(message))
    elif isinstance(message, o.PersistentVolumeClaim):
        usage |= _storage_usage(message)
    elif kind.plural in COUNTED_BY_NAME:
        usage[kind.plural] = _ONE
    if isinstance(message, o.Service):
        usage |= _port_usage(message.spec)
    return usage


def _port_usage(spec: o.ServiceSpec) -> Amounts:
    """Return what a Service uses outside of the cluster; its node ports may be allocated later."""
    usage: Amounts = {_LOAD_BALANCERS: _ONE} if spec.type == "LoadBalancer" else {}
    if has_node_ports(spec):
        usage[_NODE_PORTS] = Fraction(len(spec.ports))
    elif may_have_node_ports(spec):
        usage[_NODE_PORTS] = Fraction(sum(port.node_port > 0 for port in spec.ports))
    return usage


def _storage_usage(claim: o.PersistentVolumeClaim) -> Amounts:
    """Return what a claim counts for: what it asks for, or was given when it asked for more."""
    requested = [claim.spec.resources.requests, claim.status.allocated_resources]
    sizes = [amounts(part)["storage"] for part in requested if "storage" in part]
    usage: Amounts = {_CLAIMS: _ONE} | ({STORAGE: max(sizes)} if sizes else {})
    name = claim.metadata.annotations.get(CLASS_ANNOTATION, claim.spec.storage_class_name)
    if name:
        usage |= {f"{name}{_OF_CLASS}{each}": amount for each, amount in usage.items()}
    return usage


def is_terminal(pod: o.Pod, now: float) -> bool:
    """Return whether a pod no longer uses anything (QuotaV1Pod)."""
    return is_finished(pod) or ends_at(pod) < now


def ends_at(pod: o.Pod) -> float:
    """Return the time after which a pod counts as terminal because it should be gone; inf: never.

    The time of its deletion has the grace period in it already; Kubernetes adds it once more.
    """
    metadata = pod.metadata
    if not metadata.HasField("deletion_timestamp"):
        return float("inf")
    return metadata.deletion_timestamp.seconds + metadata.deletion_grace_period_seconds


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {PODS: _ONE}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(HUGE_PAGES_PREFIX):
            usage[name] = usage[_REQUESTS + name] = amount
        elif "/" in name:
            usage[_REQUESTS + name] = amount
    for name, amount in limits.items():
        if name in _COMPUTE:
            usage[_LIMITS + name] = amount
    return usage


def missing_requests(hard: Mapping[str, str], pod: o.Pod) -> str:
    """Return what the pod's containers must specify because of a quota; "" if nothing is missing.

    Where the pod as a whole has resources, nothing is asked of its containers.
    """
    wanted = _TO_BE_SPECIFIED.intersection(hard)
    resources = pod.spec.resources
    if not wanted or resources.requests or resources.limits:
        return ""
    missing: dict[str, list[str]] = {}
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for name in wanted.difference(_specified(container)):
            missing.setdefault(name, []).append(container.name)
    parts = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return f"must specify {'; '.join(parts)}" if parts else ""


def _specified(container: o.Container) -> set[str]:
    resources = container.resources
    found = {prefix + name for name in resources.requests for prefix in ("", _REQUESTS)}
    return found | {_LIMITS + name for name in resources.limits}


class Balance:
    """A quota while objects are charged to it: the most of each name, and what is used.

    Raises QuantityError for a quota that was not stored through an API server.
    """

    def __init__(self, quota: o.ResourceQuota) -> None:
        self.name = quota.metadata.name
        self._scopes = expressions_of(quota.spec)
        self.hard = amounts(quota.spec.hard)
        #: Whether the status tells what is used of everything that is limited.
        self.is_known = all(name in quota.status.used for name in self.hard)
        self.used = amounts(quota.status.used)

    def concerns(self, scopes: PodScopes | None) -> bool:
        """Return whether the quota is about an object in these scopes."""
        return is_in_scope(self._scopes, scopes)

    def excess(self, usage: Mapping[str, Fraction]) -> str:
        """Return why this much would be too much; "" if it is not. ``is_known`` must hold."""
        requested = self._limited(usage)
        exceeded = sorted(
            name for name, amount in requested.items() if self.used[name] + amount > self.hard[name]
        )
        if not exceeded:
            return ""
        return (
            f"exceeded quota: {self.name}, requested: {_listed(exceeded, requested)}, "
            f"used: {_listed(exceeded, self.used)}, limited: {_listed(exceeded, self.hard)}"
        )

    def charge(self, usage: Mapping[str, Fraction]) -> bool:
        """Add to what is used; return whether it is limited at all."""
        limited = self._limited(usage)
        for name, amount in limited.items():
            self.used[name] += amount
        return bool(limited)

    def _limited(self, usage: Mapping[str, Fraction]) -> Amounts:
        return {name: amount for name, amount in usage.items() if amount and name in self.hard}


class Usage(NamedTuple):
    """What an object uses, and what decides on the quotas that count it."""

    amounts: Amounts
    scopes: PodScopes | None = None


def _listed(names: list[str], values: Mapping[str, Fraction]) -> str:
    return ",".join(f"{name}={quantity.format_quantity(values[name])}" for name in names)


def set_used(quota: o.ResourceQuota, used: Mapping[str, Fraction]) -> bool:
    """Set the status to what is used; return whether that changed anything."""
    status, hard = quota.status, dict(quota.spec.hard)
    shown = {name: quantity.format_quantity(used.get(name, Fraction(0))) for name in hard}
    if dict(status.used) == shown and dict(status.hard) == hard:
        return False
    status.Clear()
    status.used.update(shown)
    status.hard.update(hard)
    return True
