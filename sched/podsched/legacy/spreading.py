"""The pods that belong together: those that the same services and controllers select.

Rules: kube-scheduler v1.16 ``priorities/metadata.go`` (``getSelectors``) and
``priorities/selector_spreading.go`` (``countMatchingPods``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from podsched.api.selectors import Selector, SelectorError, compile_selector, from_labels
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo

SERVICE: Final = "Service"
CONTROLLERS: Final = ("ReplicationController", "ReplicaSet", "StatefulSet")


class SelectedPods:
    """Counts the pods of a namespace that all selectors match, terminating ones left out.

    Without selectors it counts none.
    """

    __slots__ = ("_hash", "namespace", "selectors")

    def __init__(self, namespace: str, selectors: tuple[Selector, ...]) -> None:
        self.namespace = namespace
        self.selectors = selectors
        self._hash = hash((namespace, selectors))

    def counts(self, pod: PodInfo) -> int:
        """Return 1 for such a pod, else 0."""
        if not self.selectors or pod.terminating or pod.cls.namespace != self.namespace:
            return 0
        return int(all(selector.matches(pod.cls.labels) for selector in self.selectors))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the hash, which differs from process to process."""
        return SelectedPods, (self.namespace, self.selectors)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SelectedPods) and (
            (self.namespace, self.selectors) == (other.namespace, other.selectors)
        )


def service_selectors(pod: PodInfo, cluster: ClusterView) -> list[Selector]:
    """Return the selectors of the services that select the pod, by the services' names.

    kube-scheduler takes them in no order; a service without a selector selects nothing.
    """
    labels = pod.cls.labels
    found = sorted(
        (service.metadata.name, tuple(service.spec.selector.items()))
        for service in cluster.list(SERVICE, pod.namespace)
        if service.spec.selector
        and all(labels.get(key) == value for key, value in service.spec.selector.items())
    )
    return [from_labels(dict(selector)) for _, selector in found]


def controller_selectors(pod: PodInfo, cluster: ClusterView) -> list[Selector]:
    """Return the selectors, matching the pod, of all controllers of its namespace."""
    labels, found = pod.cls.labels, []
    for kind in CONTROLLERS:
        for controller in cluster.list(kind, pod.namespace):
            selector = _selector(kind, controller)
            if not selector.empty and selector.matches(labels):
                found.append(selector)
    return found


def _selector(kind: str, controller: Any) -> Selector:
    if kind == "ReplicationController":
        return from_labels(controller.spec.selector)
    declared = controller.spec.selector if controller.spec.HasField("selector") else None
    try:
        return compile_selector(declared)
    except SelectorError:
        return compile_selector(None)


def versions(cluster: ClusterView, kinds: Sequence[str]) -> Hashable:
    """Return the versions of the kinds."""
    return tuple(cluster.version(kind) for kind in kinds)
