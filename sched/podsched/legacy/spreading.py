"""Find the pods that the same services and controllers select.

Rules: kube-scheduler v1.16 ``priorities/metadata.go`` (``getSelectors``) and
``priorities/selector_spreading.go`` (``countMatchingPods``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final

from podsched.api.selectors import Selector, SelectorError, compile_selector, from_labels
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.rows.queries import ContentQuery

SERVICE: Final = "Service"
CONTROLLERS: Final = ("ReplicationController", "ReplicaSet", "StatefulSet")


class SelectedPods(ContentQuery):
    """Counts the pods of a namespace that all selectors match, without terminating pods.

    Without selectors it counts none.
    """

    __slots__ = ("namespace", "selectors")

    def __init__(self, namespace: str, selectors: tuple[Selector, ...]) -> None:
        super().__init__(namespace, selectors)
        self.namespace, self.selectors = namespace, selectors

    def counts(self, pod: PodInfo) -> int:
        if not self.selectors or pod.terminating or pod.cls.namespace != self.namespace:
            return 0
        return int(all(selector.matches(pod.cls.labels) for selector in self.selectors))


def service_selectors(pod: PodInfo, cluster: ClusterView) -> list[Selector]:
    """Return the selectors of the services that select the pod, in the order of their names.

    In kube-scheduler they have no order. A service without a selector selects nothing.
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
    """Return those selectors of the namespace's controllers that match the pod."""
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
