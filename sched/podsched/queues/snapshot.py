"""The queues, and what is admitted to them.

Decisions change the snapshot itself for a try, for example by removing victims, and put it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from podsched.queues.objects import ClusterQueue, Flavor, Workload
from podsched.queues.quota import Amounts, Cohort, Node, build_forest


class Snapshot:
    """Quotas, admitted workloads and usage of all queues, as trees of cohorts."""

    def __init__(
        self,
        queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort] = (),
        flavors: Iterable[Flavor] = (),
    ) -> None:
        self.queues = {queue.name: queue for queue in queues}
        self.flavors: Mapping[str, Flavor] = {flavor.name: flavor for flavor in flavors}
        nodes = (
            (Node(queue.name, queue.quotas, queue.weight, is_cohort=False), queue.cohort)
            for queue in self.queues.values()
        )
        self.forest = build_forest(cohorts, nodes)
        self.workloads: dict[str, dict[str, Workload]] = {name: {} for name in self.queues}
        """The admitted workloads, by ClusterQueue and key."""

    def node(self, queue: str) -> Node:
        return self.forest.queues[queue]

    def admits(self, queue: str) -> bool:
        """Whether a ClusterQueue, its flavors and topologies exist, and it is below no cycle."""
        found = self.queues.get(queue)
        return (
            found is not None
            and queue not in self.forest.cyclic
            and all(
                _is_usable(self.flavors.get(f)) for group in found.groups for f in group.flavors
            )
        )

    def add(self, workload: Workload) -> None:
        self.workloads[workload.queue][workload.key] = workload
        self.add_usage(workload.queue, workload.usage)

    def remove(self, workload: Workload) -> None:
        del self.workloads[workload.queue][workload.key]
        self.remove_usage(workload.queue, workload.usage)

    def add_usage(self, queue: str, usage: Amounts) -> None:
        """Add usage to a queue, without a workload."""
        for key, amount in usage.items():
            self.node(queue).add(key, amount)

    def remove_usage(self, queue: str, usage: Amounts) -> None:
        """Subtract usage from a queue, without a workload."""
        for key, amount in usage.items():
            self.node(queue).remove(key, amount)

    def fits(self, queue: str, usage: Amounts) -> bool:
        """Whether a queue may use these amounts in addition."""
        node = self.node(queue)
        return all(amount <= node.available(key) for key, amount in usage.items())

    @contextmanager
    def with_changes(
        self, less: Iterable[tuple[str, Amounts]], more: Iterable[tuple[str, Amounts]]
    ) -> Iterator[None]:
        """Subtract ``less`` and add ``more``, each as (queue, usage), within the context."""
        less, more = list(less), list(more)
        for queue, usage in less:
            self.remove_usage(queue, usage)
        for queue, usage in more:
            self.add_usage(queue, usage)
        try:
            yield
        finally:
            for queue, usage in more:
                self.remove_usage(queue, usage)
            for queue, usage in less:
                self.add_usage(queue, usage)

    def with_usage(self, queue: str, usage: Amounts) -> AbstractContextManager[None]:
        """Add usage to a queue within the context."""
        return self.with_changes((), [(queue, usage)])

    def without_usage(self, workloads: Iterable[Workload]) -> AbstractContextManager[None]:
        """Subtract the usage of admitted workloads within the context; they stay candidates."""
        return self.with_changes([(one.queue, one.usage) for one in workloads], ())

    @contextmanager
    def without(self, workloads: Iterable[Workload]) -> Iterator[None]:
        """Remove admitted workloads within the context, so that none of them can be a victim.

        Some may have been removed already, as victims: then only their usage is subtracted.
        """
        gone = list(workloads)
        known = [one for one in gone if self.workloads[one.queue].pop(one.key, None) is not None]
        try:
            with self.without_usage(gone):
                yield
        finally:
            for workload in known:
                self.workloads[workload.queue][workload.key] = workload


def _is_usable(flavor: Flavor | None) -> bool:
    return flavor is not None and bool(flavor.levels or not flavor.topology)
