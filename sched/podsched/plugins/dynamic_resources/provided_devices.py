"""The devices that DeviceClasses provide for extended resources, for other plugins."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping

from podsched.framework.nodes import ClusterView, Int64s
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.device_counts import DeviceCounts
from podsched.plugins.dynamic_resources.devices import DEVICE_KINDS, KnownDevices
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader


class CountedDevices:
    """See ``framework.plugin.ProvidedDevices``."""

    def __init__(
        self, devices: KnownDevices, needs: NeedsReader, compile_selector: SelectorCompiler
    ) -> None:
        self._devices = devices
        self._needs = needs
        self._counts = DeviceCounts(compile_selector)
        self._counted: set[str] = set()

    def resource_classes(self, cluster: ClusterView) -> Mapping[str, str]:
        """Return the DeviceClass that provides each extended resource, by the resource's name."""
        return self._needs.resource_classes(cluster)

    def count_ahead(self, resources: Collection[str]) -> None:
        """Note the resources whose devices count in scores."""
        self._counted.update(resources)

    def device_counts(self, resource: str, cluster: ClusterView) -> Int64s | None:
        """Return the devices of a resource's class, and those in use; shape ``(2, size)``."""
        name = self._needs.resource_classes(cluster).get(resource)
        if name is None:
            return None
        return self._counts.of(name, self._devices.of(cluster), cluster.nodes)

    def devices_version(self, cluster: ClusterView) -> Hashable:
        """Return the versions of everything that ``device_counts`` reads."""
        nodes = cluster.nodes
        versions = (cluster.version(kind) for kind in DEVICE_KINDS)
        return (cluster.assumed(CLAIM).version, *versions, nodes.topology_version, nodes.size)

    def prepare(self, pod: PodInfo, cluster: ClusterView) -> Iterator[None]:
        """Count the devices that the scores of other plugins will read."""
        for resource, device_class in self._needs.provided(pod, cluster):
            devices = self._devices.of(cluster)
            if resource in self._counted and device_class in devices.classes:
                yield from self._counts.prepare(device_class, devices, cluster.nodes)
