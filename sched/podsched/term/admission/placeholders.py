"""Pods that stand in a trial for those of promised starts.

They take what a promised start needs of a node: requests, host ports and places of pods. Others
without requests keep away what required anti-affinity, of either side, does not permit beside the
promised pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Final

from podsched.api.objects import Pod
from podsched.cache.cache import Cache
from podsched.framework.pods import PodClass, PodInfo
from podsched.queues.objects import PODS
from podsched.term.admission.reserved_ports import add_ports, is_port
from podsched.v1 import objects_pb2 as v1

#: Max classes that are kept; with more, all are made anew.
_MOST_CLASSES: Final = 1_000


class Placeholders:
    """Makes placeholders; their classes are made once, which takes longer than a pod."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._count = 0
        self._classes: dict[Hashable, PodClass] = {}

    def requesting(self, amounts: Mapping[str, int]) -> Iterator[PodInfo]:
        """Yield pods that together request the amounts; their number is the amount of ``PODS``."""
        for index in range(max(1, amounts.get(PODS, 0))):
            # The first requests everything; each of the others only counts as a pod.
            requests = amounts.items() if index == 0 else ()
            yield self._requesting(frozenset(one for one in requests if one[0] != PODS))

    def _requesting(self, requests: frozenset[tuple[str, int]]) -> PodInfo:
        def make() -> Pod:
            made = Pod()
            of_container = made.spec.containers.add(name="reserved").resources.requests
            for resource, number in sorted(requests):
                if number > 0 and not is_port(resource):
                    of_container[resource] = f"{number}m" if resource == "cpu" else str(number)
            add_ports(made.spec.containers[0], sorted(filter(is_port, dict(requests))))
            return made

        return self._placeholder(requests, make)

    def keeping_apart(
        self, promised: Collection[PodInfo], nodes: Iterable[str], *, labelled: bool
    ) -> Iterator[tuple[PodInfo, str]]:
        """Yield pods, with their nodes, that keep others away from promised pods on these nodes.

        Nothing if no anti-affinity asks for it, or if the promised pods differ: which of them goes
        to which node is not known. ``labelled``: see ``counts_labels``.
        """
        cls = next(iter(promised)).cls
        if not labelled and not repels(cls.spec):
            return
        if any(pod.cls is not cls for pod in promised):
            return

        def make() -> Pod:
            made = Pod()
            made.metadata.namespace = cls.namespace
            made.metadata.labels.update(cls.labels if labelled else {})
            made.spec.affinity.pod_anti_affinity.CopyFrom(cls.spec.affinity.pod_anti_affinity)
            return made

        for node in nodes:
            yield self._placeholder((cls.id, labelled), make), node

    def _placeholder(self, key: Hashable, make: Callable[[], Pod]) -> PodInfo:
        cls = self._classes.get(key)
        if cls is None:
            if len(self._classes) >= _MOST_CLASSES:
                self._classes.clear()
            cls = self._classes[key] = self._cache.classes.intern(make())
        self._count += 1
        made = Pod(spec=cls.spec)
        # No pod has such a name.
        name = made.metadata.name = made.metadata.uid = f"podsched.io/reserved-{self._count}"
        return PodInfo(name, f"{cls.namespace}/{name}", name, cls, made)


def repels(spec: v1.PodSpec) -> bool:
    """Whether a pod has required anti-affinity."""
    far = spec.affinity.pod_anti_affinity
    return bool(far.required_during_scheduling_ignored_during_execution)


def counts_labels(pods: Iterable[PodInfo]) -> bool:
    """Whether promised pods have their labels for these pods: for required anti-affinity alone.

    For affinity and spreading they would count as there, which they are only later.
    """
    specs = [cls.spec for cls in {pod.cls for pod in pods}]
    return any(map(repels, specs)) and not any(
        spec.affinity.pod_affinity.required_during_scheduling_ignored_during_execution
        or spec.topology_spread_constraints
        for spec in specs
    )
