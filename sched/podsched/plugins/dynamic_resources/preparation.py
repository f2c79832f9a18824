"""Makes what takes long before an attempt, in steps, so that Filter is short."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from podsched.framework.nodes import Bools, ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.device_filter import DeviceFilter
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.node_search import NodeSearch, PodNeeds
from podsched.plugins.dynamic_resources.pod_claims import ClaimUnusableError
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader
from podsched.plugins.dynamic_resources.provided_devices import CountedDevices
from podsched.plugins.dynamic_resources.remembered import RememberedSelectors


class Preparation:
    """Reads slices, evaluates selectors, and searches and counts devices.

    ``most_steps``: max pauses of the searches.
    """

    def __init__(
        self,
        devices: KnownDevices,
        needs: NeedsReader,
        selectors: RememberedSelectors,
        search: NodeSearch,
        device_filter: DeviceFilter,
        provided: CountedDevices,
        *,
        most_steps: int,
    ) -> None:
        self._devices = devices
        self._needs = needs
        self._selectors = selectors
        self._search = search
        self._filter = device_filter
        self._provided = provided
        self._most_steps = most_steps

    def steps(
        self, pod: PodInfo, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """See ``DynamicResources.prepare``."""
        if not self._needs.is_concerned(pod, cluster):
            return
        self._selectors.holds_back = True
        self._filter.shorten()
        yield from self._devices.prepare(cluster)
        try:
            needs = self._needs.by_row(pod, cluster)
        except ClaimUnusableError:
            return
        for variant, mine in needs.by_variant(np.arange(cluster.nodes.size)):
            if variant.claims:
                yield from self._prepare(variant, mine, cluster, is_late)
        yield from self._provided.prepare(pod, cluster)

    def _prepare(
        self, needs: PodNeeds, mine: Bools, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Prepare for one variant of the needs; ``mine``: the mask of its rows."""
        began = self._devices.of(cluster)
        free = self._devices.free(cluster)
        jobs = free.prepare(needs.claims, self._selectors, is_late)
        for count, job in enumerate(jobs):
            yield job
            # Slices and classes may have changed meanwhile.
            yield from self._devices.prepare(cluster)
            if count > self._most_steps or self._devices.of(cluster) is not began:
                return
        fitting = self._devices.free(cluster).fitting(needs.claims, cluster.nodes)
        unsure = cluster.nodes.alive if fitting is None else fitting.unsure
        if unsure.any():
            known = min(len(mine), len(unsure))  # Rows may have been added meanwhile.
            rows = np.flatnonzero(unsure[:known] & mine[:known])
            yield from self._search.prepare(needs, cluster.nodes, rows, self._most_steps)
