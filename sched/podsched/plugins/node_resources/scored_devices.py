"""Devices that count in scores as amounts of the extended resources that they provide.

On nodes without allocatable of a resource, a score counts the devices of its DeviceClass instead:
all devices as allocatable, those in use as requested (kube-scheduler v1.36
``noderesources/resource_allocation.go``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from podsched.api.extended_resources import may_be_devices
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ProvidedDevices
from podsched.framework.pods import PodClass
from podsched.plugins.node_resources.resource_amounts import DevicesByRow, WeightedResource


class ScoredDevices:
    """The devices that the score of a plugin counts."""

    def __init__(self, resources: Sequence[WeightedResource]) -> None:
        self._names = [resource.name for resource in resources if may_be_devices(resource.name)]
        self._devices: ProvidedDevices | None = None

    def leave_to(self, devices: ProvidedDevices) -> None:
        """Count the devices that another plugin provides."""
        self._devices = devices
        devices.count_ahead(self._names)

    def version(self, cls: PodClass, cluster: ClusterView) -> Hashable:
        """Return a value that changes when counts do; None if the class requests no devices."""
        names = self._requested(cls)
        return self._devices.devices_version(cluster) if self._devices and names else None

    def counts(self, cls: PodClass, cluster: ClusterView) -> DevicesByRow:
        """Return the counts for the resources that the pods of a class request."""
        names = self._requested(cls)
        if self._devices is None or not names:
            return {}
        counts = ((name, self._devices.device_counts(name, cluster)) for name in names)
        return {name: found for name, found in counts if found is not None}

    def _requested(self, cls: PodClass) -> list[str]:
        return [name for name in self._names if cls.requests.get(name)]
