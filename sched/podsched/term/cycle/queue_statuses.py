"""Write the statuses of ClusterQueues, LocalQueues and Cohorts, at most once a second.

Best effort, like the statuses of pods: they inform people. The scheduler itself reads only the past
usage of LocalQueues again (``admission.histories``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from podsched.api import codec
from podsched.api.conditions import FALSE, TRUE, is_terminating, set_condition
from podsched.api.objects import ClusterQueue, Cohort, LocalQueue, copy_of, timestamp
from podsched.queues.amounts import amount_text
from podsched.queues.quota import FlavorResource
from podsched.queues.shares import dominant_share
from podsched.queues.stored import is_stopped
from podsched.serve.client.cluster import merge_patch_request
from podsched.serve.client.errors import Unavailable, of_result
from podsched.serve.client.outbox import Outbox
from podsched.term.admission.admission import Admission
from podsched.term.admission.tallies import QueueKey
from podsched.term.writes.pod_group_conditions import PatchObjects
from podsched.term.writes.status_writer import log_refused
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Seconds between two rounds of writes.
PERIOD: Final = 1.0
_RETRY_FOR: Final = 5.0
_ACTIVE: Final = "Active"


class QueueStatuses:
    """Writes the statuses of one term; ``wall`` returns Unix time in seconds."""

    def __init__(
        self,
        admission: Admission,
        patch: PatchObjects,
        wall: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """``wake`` is called if there is something to write, without a change of the cluster."""
        self._admission = admission
        self._cluster = admission.cluster
        self._wall = wall
        self._wake = wake
        self._outbox: Outbox[api_pb2.PatchRequest] = Outbox(
            self._send, self._answered, retry_for=_RETRY_FOR
        )
        self._patch = patch
        self._next = 0.0

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(self, patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        results = await self._patch(patches)
        log_refused("Could not write queue statuses", "queues", results)
        return results

    def next_time(self) -> float | None:
        """Return when there is something to write."""
        return self._next if self._admission.tallies.changed else None

    def refresh(self, now: float) -> Iterator[None]:
        """Write what has changed, in steps, at most once per PERIOD."""
        changed = self._admission.tallies.changed
        if not changed or now < self._next:
            return
        self._next = now + PERIOD
        # Cohorts first: if the round is interrupted, the queues left cause another one.
        if self._admission.rules.fair:
            for cohort in self._cluster.list("Cohort"):
                self._write("Cohort", cohort.metadata.name)
                yield
        for queue in list(changed):
            self._write(*queue)
            del changed[queue]
            yield

    def _write(self, kind: str, key: str) -> None:
        namespace, _, name = key.rpartition("/")
        item = self._cluster.get(kind, namespace, name)
        if item is None:
            return
        after = copy_of(item.status)
        if isinstance(item, ClusterQueue):
            self._of_cluster_queue(item, after)
        elif isinstance(item, LocalQueue):
            self._of_local_queue(item, key, after)
        elif isinstance(item, Cohort):
            share = self._share(self._admission.snapshot.forest.cohorts.get(name))
            after.fair_sharing.weighted_share = share
        # A write that is on its way has older numbers.
        if after == item.status and not self._outbox.has(f"{kind}/{key}"):
            return
        # Fields that are gone are null: a merge patch would keep them otherwise.
        status = dict.fromkeys(codec.write(item.status)) | codec.write(after)
        patch = merge_patch_request(kind, namespace, name, {"status": status}, item.metadata.uid)
        self._outbox.put(f"{kind}/{key}", patch)

    def _of_cluster_queue(self, item: ClusterQueue, after: v1.ClusterQueueStatus) -> None:
        name, admission = item.metadata.name, self._admission
        tally = admission.tallies.of(QueueKey("ClusterQueue", name))
        queue, node = admission.snapshot.queues.get(name), None
        nominal: Mapping[FlavorResource, int] = {}
        if queue is not None:
            node = admission.snapshot.node(name)
            nominal = {key: quota.nominal for key, quota in queue.quotas.items()}
        after.pending_workloads = tally.pending
        after.reserving_workloads = after.admitted_workloads = tally.admitted
        reserved = {} if node is None else node.usage
        borrows = bool(item.spec.cohort_name)
        _set_usage(after.flavors_reservation, nominal, reserved, borrows=borrows)
        _set_usage(after.flavors_usage, nominal, tally.usage, borrows=borrows)
        if admission.rules.fair:
            after.fair_sharing.weighted_share = self._share(node)
        else:
            after.ClearField("fair_sharing")
        reason, message = self.inactive(item)
        if reason:
            self._set_active(item, after, FALSE, reason, message)
        else:
            self._set_active(item, after, TRUE, "Ready", "Can admit new workloads")

    def inactive(self, item: ClusterQueue) -> tuple[str, str]:
        """Return the reason and message why a ClusterQueue admits nothing; "" if it does."""
        if is_terminating(item):
            return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        found: list[tuple[str, str]] = []
        if is_stopped(item):
            found.append(("Stopped", "is stopped"))
        names = [one.name for group in item.spec.resource_groups for one in group.flavors]
        flavors = {name: self._cluster.get("ResourceFlavor", "", name) for name in names}
        missing = [name for name, flavor in flavors.items() if flavor is None]
        if missing:
            text = f"references missing ResourceFlavor(s): {','.join(missing)}"
            found.append(("FlavorNotFound", text))
        for name, flavor in flavors.items():
            topology = "" if flavor is None else flavor.spec.topology_name
            if topology and self._cluster.get("Topology", "", topology) is None:
                text = f'there is no Topology "{topology}" for TAS flavor "{name}"'
                found.append(("TopologyNotFound", text))
        if item.metadata.name in self._admission.snapshot.forest.cyclic:
            found.append(("Unknown", "is below a cycle of cohorts"))
        if not found:
            return "", ""
        texts = ", ".join(text for _, text in found)
        return found[0][0], f"Can't admit new workloads: {texts}."

    def _of_local_queue(self, item: LocalQueue, key: str, after: v1.LocalQueueStatus) -> None:
        tally = self._admission.tallies.of(QueueKey("LocalQueue", key))
        queue = self._admission.snapshot.queues.get(item.spec.cluster_queue)
        nominal = {} if queue is None else dict.fromkeys(queue.quotas, 0)
        after.pending_workloads = tally.pending
        after.reserving_workloads = after.admitted_workloads = tally.admitted
        for field in (after.flavors_reservation, after.flavors_usage):
            _set_usage(field, nominal, tally.usage)
        found = self._cluster.get("ClusterQueue", "", item.spec.cluster_queue)
        if is_stopped(item):
            self._set_active(item, after, FALSE, "Stopped", "LocalQueue is stopped")
        elif found is None or self.inactive(found)[0]:
            reason = "ClusterQueueDoesNotExist" if found is None else "ClusterQueueIsInactive"
            self._set_active(
                item, after, FALSE, reason, "Can't submit new workloads to clusterQueue"
            )
        else:
            self._set_active(item, after, TRUE, "Ready", "Can submit new workloads to localQueue")
        histories = self._admission.histories
        if histories.orders(item.spec.cluster_queue):
            history = histories.of(key)
            past = after.fair_sharing.admission_fair_sharing_status
            past.consumed_resources.clear()
            for name, number in history.consumed.items():
                past.consumed_resources[name] = amount_text(name, round(number))
            past.last_update.CopyFrom(timestamp(history.sampled_at, whole=True))

    def _share(self, node: Any) -> int:
        return 0 if node is None else dominant_share(node).rounded

    def _set_active(
        self,
        item: ClusterQueue | LocalQueue,
        status: v1.ClusterQueueStatus | v1.LocalQueueStatus,
        value: str,
        reason: str,
        message: str,
    ) -> None:
        now = timestamp(self._wall(), whole=True)
        condition = set_condition(status, _ACTIVE, value, reason, message, now)
        condition.observed_generation = item.metadata.generation

    def _answered(self, key: str, _: object, result: api_pb2.BatchResult) -> None:
        if isinstance(of_result(result), Unavailable):
            # It is made again in the next round: the queue may not change for long.
            self._admission.tallies.changed[QueueKey(*key.split("/", 1))] = None
            self._wake()


def _set_usage(
    field: Any,
    nominal: Mapping[FlavorResource, int],
    usage: Mapping[FlavorResource, int],
    *,
    borrows: bool | None = None,
) -> None:
    """Set a queue's usage: flavors in the order of its quotas, the resources of each by name.

    ``borrows``: whether it may borrow; None: it has no quota of its own.
    """
    del field[:]
    flavors: dict[str, Any] = {}
    for key in nominal:
        if key.flavor not in flavors:
            flavors[key.flavor] = field.add(name=key.flavor)
    for key in sorted(nominal, key=lambda key: key.resource):
        used = usage.get(key, 0)
        one = flavors[key.flavor].resources.add(name=key.resource)
        one.total = amount_text(key.resource, used)
        if borrows is not None:
            borrowed = max(0, used - nominal[key]) if borrows else 0
            one.borrowed = amount_text(key.resource, borrowed)
