"""Keeps the leases of hollow nodes: creates, renews and deletes them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, cast

from podsched.api.codec import format_time
from podsched.api.metadata_defaulting import NODE_LEASES
from podsched.api.objects import AnyObject, Lease, Node, timestamp
from podsched.api.owners import add_owner
from podsched.api.reasons import StatusCode
from podsched.lib.groups import Grouped
from podsched.serve.agent.deletions import deletions
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, NotFound
from podsched.serve.client.informer import Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import AgentMetrics
from podsched.v1 import api_pb2 as v1
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

_log = get_logger("agent")
DURATION = 40
"""Seconds: kubelet's nodeLeaseDurationSeconds."""
SLOTS = 20
"""Number of parts of a period among which renewals are spread."""


class Heartbeats:
    """Renews the lease of each node once per period, from ``begin`` until ``pause`` or ``end``.

    ``period`` is in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        informer: Informer,
        period: float,
        metrics: AgentMetrics,
    ) -> None:
        self._client = client
        self._informer = informer
        self._period = period
        self._metrics = metrics
        self._schedule = RenewalSchedule()
        self._renewals = Outbox(self._send, self._renewed)
        self._new = Outbox(client.create_many, self._made)
        self._old = deletions(client)

    def runs(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what has to run in tasks, by their names."""
        return {
            "agent heartbeats": self._beat(),
            "agent renewals": self._renewals.run(),
            "agent leases": self._new.run(),
            "agent old leases": self._old.run(),
        }

    def begin(self, name: str) -> None:
        """Renew a node's lease now and once per period."""
        self._old.drop(name)
        self._schedule.add(name)
        self._renewals.put(name, name)

    def pause(self, name: str) -> None:
        """Renew a node's lease no more."""
        self._schedule.remove(name)
        self._renewals.drop(name)

    def end(self, name: str) -> None:
        """Delete the lease of a node that is gone."""
        self.pause(name)
        self._new.drop(name)
        self._old.put(name, DeleteRequest(kind="Lease", namespace=NODE_LEASES, name=name))

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        part = self._period / SLOTS
        at = loop.time()
        while True:
            for name in self._schedule.turn():
                self._renewals.put(name, name)
            at = max(at + part, loop.time() - self._period)
            await asyncio.sleep(max(0.0, at - loop.time()))

    async def _send(self, names: Sequence[str]) -> Sequence[v1.BatchResult]:
        # Created here, so that a delayed renewal has the time of its sending.
        return await self._client.patch_many(renewals(names, time.time()))

    def _renewed(self, name: str, _: str, result: v1.BatchResult) -> None:
        outcome = "success" if result.code == StatusCode.OK else "error"
        self._metrics.heartbeats_total.labels(outcome).inc()
        if isinstance(errors.of_result(result), NotFound):
            node = self._informer.get("Node", name)
            if node is not None and name in self._schedule:
                self._new.put(name, new_lease(cast(Node, node), time.time()))

    def _made(self, name: str, _: AnyObject, result: v1.BatchResult) -> None:
        failed = errors.of_result(result)
        if failed is not None and not isinstance(failed, AlreadyExists):
            _log.warning("Creating a lease failed", node=name, error=str(failed))


class RenewalSchedule:
    """Assigns each node to the slot of a period that has the fewest nodes.

    So thousands of nodes cause a steady load instead of bursts.
    """

    def __init__(self) -> None:
        self._slots = Grouped[int, str, None]()
        self._at = 0

    def __contains__(self, name: str) -> bool:
        return self._slots.group_of(name) is not None

    def add(self, name: str) -> None:
        """Assign a slot to a node unless it has one."""
        if name not in self:
            least = min(range(SLOTS), key=lambda slot: len(self._slots.of(slot)))
            self._slots.move(name, least, None)

    def remove(self, name: str) -> None:
        """Remove a node, which is no longer due."""
        self._slots.remove(name)

    def turn(self) -> list[str]:
        """Advance to the next slot and return its nodes."""
        self._at = (self._at + 1) % SLOTS
        return list(self._slots.of(self._at))


def new_lease(node: Node, now: float) -> Lease:
    """Return the initial lease of a node, owned by the node."""
    lease = Lease()
    lease.metadata.name = node.metadata.name
    lease.metadata.namespace = NODE_LEASES
    if node.metadata.uid:
        add_owner(lease.metadata, node)
    lease.spec.holder_identity = node.metadata.name
    lease.spec.lease_duration_seconds = DURATION
    lease.spec.renew_time.CopyFrom(timestamp(now))
    return lease


def renewals(names: Iterable[str], now: float) -> list[PatchRequest]:
    """Return the patches that renew the leases of these nodes."""
    spec = {"renewTime": format_time(timestamp(now))}
    patch = json.dumps({"spec": spec}).encode()
    return [
        PatchRequest(kind="Lease", namespace=NODE_LEASES, name=name, merge_patch=patch)
        for name in names
    ]
