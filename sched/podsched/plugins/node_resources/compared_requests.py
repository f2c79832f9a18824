"""The requests of a pod that NodeResourcesFit compares with a node's free resources."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from podsched.api.extended_resources import is_extended, may_be_devices
from podsched.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ProvidedDevices
from podsched.framework.pods import PodClass
from podsched.plugins.node_resources.resource_amounts import NATIVE, is_scalar

#: Reasons for these resources come first, in this order; other resources follow by name.
_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)


class _OfClass(NamedTuple):
    """The compared requests of a class, and the same with one pod."""

    wanted: tuple[tuple[str, int], ...]
    demand: Mapping[str, int]


class ComparedRequests:
    """The requests of pod classes, without the resources that a profile ignores."""

    def __init__(self, ignored_resources: Collection[str], ignored_groups: Collection[str]) -> None:
        self._ignored_resources = frozenset(ignored_resources)
        self._ignored_groups = frozenset(ignored_groups)
        # All profiles share the pod classes, but each may ignore other resources.
        ignored = sorted(self._ignored_resources), sorted(self._ignored_groups)
        self._key = f"NodeResourcesFit/compared/{ignored[0]}/{ignored[1]}"
        #: The devices that may provide resources, if the profile allocates devices.
        self.devices: ProvidedDevices | None = None

    def wanted(self, cls: PodClass) -> tuple[tuple[str, int], ...]:
        """Return the (resource, amount) pairs, in the order of the reasons."""
        return self._of(cls).wanted

    def _of(self, cls: PodClass) -> _OfClass:
        known: _OfClass | None = cls.compiled.get(self._key)
        if known is None:
            requests = cls.requests
            names = (*_FIRST, *sorted(requests.keys() - NATIVE))
            wanted = tuple(
                (name, requests[name])
                for name in names
                if requests.get(name, 0) > 0 and self._compares(name)
            )
            known = cls.compiled[self._key] = _OfClass(wanted, {**dict(wanted), PODS: 1})
        return known

    def _compares(self, name: str) -> bool:
        if not is_extended(name):
            return name in NATIVE or is_scalar(name)
        group = name.split("/", 1)[0]
        return name not in self._ignored_resources and group not in self._ignored_groups

    def demand(self, cls: PodClass, cluster: ClusterView) -> Mapping[str, int]:
        """Return those that are compared on all nodes, and one pod."""
        known, left = self._of(cls).demand, self.left(cls, cluster)
        return {name: n for name, n in known.items() if name not in left} if left else known

    def left(self, cls: PodClass, cluster: ClusterView) -> Collection[str]:
        """Return the requested resources that devices provide on nodes without allocatable."""
        if self.devices is None or not self.may_be_devices(cls):
            return ()
        return cls.requests.keys() & self.devices.resource_classes(cluster).keys()

    def may_be_devices(self, cls: PodClass) -> bool:
        """Return whether devices may provide a requested resource."""
        return self.devices is not None and any(map(may_be_devices, cls.requests))
