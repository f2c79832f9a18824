"""Small nodes and pods, queries over them, and a plain reading of what a node's pods amount to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from podsched.cache.cache import Cache
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

ZONE = "topology.kubernetes.io/zone"
MAX_INT64 = 2**63 - 1


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[tuple[str, str, str]] = (),
    allocatable: Mapping[str, str] | None = None,
    images: Mapping[str, int] | None = None,
    unschedulable: bool = False,
) -> v1.Node:
    node = v1.Node()
    node.metadata.name = name
    node.metadata.labels.update(labels or {})
    node.spec.unschedulable = unschedulable
    for key, value, effect in taints:
        node.spec.taints.add(key=key, value=value, effect=effect)
    node.status.allocatable.update(allocatable or {"cpu": "4", "memory": "32Gi", "pods": "110"})
    for image, size in (images or {}).items():
        node.status.images.add(names=[image], size_bytes=size)
    return node


def service(name: str, app: str = "a") -> v1.Service:
    """A service of an app's pods."""
    made = v1.Service()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.spec.selector["app"] = app
    return made


def cache_with(*nodes: str) -> Cache:
    """A cache with nodes of these names."""
    cache = Cache()
    for name in nodes:
        cache.apply("Node", None, make_node(name))
    return cache


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    node: str = "",
    requests: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    priority: int = 0,
    host_port: int = 0,
    terminating: bool = False,
    uid: str = "",
    phase: str = "",
    nominated: str = "",
) -> v1.Pod:
    pod = v1.Pod()
    pod.metadata.name = name
    pod.metadata.namespace = namespace
    pod.metadata.uid = uid or f"uid-{namespace}-{name}"
    pod.metadata.labels.update(labels or {})
    if terminating:
        pod.metadata.deletion_timestamp.seconds = 1_700_000_000
    container = pod.spec.containers.add(name="main", image="app:1")
    container.resources.requests.update({"cpu": "100m"} if requests is None else requests)
    if host_port:
        container.ports.add(host_port=host_port, container_port=host_port, protocol="TCP")
    pod.spec.priority = priority
    pod.spec.node_name = node
    if phase:
        pod.status.phase = phase
    if nominated:
        pod.status.nominated_node_name = nominated
    return pod


def info(classes: PodClasses, name: str, **fields: object) -> PodInfo:
    return make_pod_info(make_pod(name, **fields), classes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Labelled:
    """Counts running pods that have a label; terminating ones only when told so."""

    key: str
    value: str
    terminating: bool = False

    def counts(self, pod: PodInfo) -> int:
        if pod.terminating and not self.terminating:
            return 0
        return int(pod.cls.labels.get(self.key) == self.value)


@dataclass(frozen=True)
class LabelTerms:
    """A family whose terms are the pairs of a pod's labels; the label "twice" is carried twice."""

    name: str = "label pairs"

    def terms(self, pod: PodInfo) -> Sequence[Hashable]:
        pairs: list[Hashable] = sorted(pod.cls.labels.items())
        return pairs + [pair for pair in pairs if pair[0] == "twice"]  # type: ignore[index]


def as_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def plain_usage(pods: Iterable[PodInfo]) -> dict[str, int]:
    """What kube-scheduler's NodeInfo adds up for these pods, read one by one."""
    usage = {"#pods": 0, "#nonzero cpu": 0, "#nonzero memory": 0}
    for pod in pods:
        usage["#pods"] += 1
        usage["#nonzero cpu"] += pod.cls.nonzero[0]
        usage["#nonzero memory"] += pod.cls.nonzero[1]
        for name, amount in pod.cls.requests.items():
            usage[name] = usage.get(name, 0) + amount
    return {name: as_int64(amount) for name, amount in usage.items()}


def plain_ports(pods: Iterable[PodInfo]) -> dict[tuple[str, str, int], int]:
    used: dict[tuple[str, str, int], int] = {}
    for pod in pods:
        for container in pod.pod.spec.containers:
            for port in container.ports:
                key = (port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
                used[key] = used.get(key, 0) + 1
    return used
