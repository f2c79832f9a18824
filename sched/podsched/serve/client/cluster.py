"""The protocols by which a scheduler replica reads and changes the cluster.

``ApiClient`` implements them, and ``testing.fake_cluster.FakeCluster`` in memory; one contract
suite tests both. ``serve.kube.cluster.KubeCluster`` is a Kubernetes cluster. Every write that needs
leadership takes a ``Fence``.

Calls raise ``serve.client.errors.ClientError`` when they fail as a whole; the outcome of each item
is a ``BatchResult`` (code 0: done; else ``reason``: FENCE_LOST, ALREADY_BOUND with ``node_name``,
NOT_FOUND, ...).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from podsched.api.conditions import DISRUPTION_TARGET, TRUE
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Event, Pod, PodCondition
from podsched.serve.client.informer import Handler
from podsched.v1 import api_pb2 as v1


class InformerPort(Protocol):
    """Keeps objects of some kinds current in memory; see ``serve.client.informer.Informer``."""

    synced: asyncio.Event

    @property
    def kinds(self) -> Sequence[str]: ...

    @property
    def revision(self) -> int: ...

    @property
    def undecodable(self) -> int: ...

    @property
    def relists(self) -> int: ...

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...

    def pace(self, milliseconds: int) -> None: ...

    async def wait_for_revision(self, revision: int) -> None: ...

    async def run(self, handler: Handler) -> None: ...


class ClusterWrites(Protocol):
    """The fenced writes that a leader makes during its term."""

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """Bind pods. With a uid, binding again to the same node is a success."""

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Delete pods gracefully, respecting or ignoring disruption budgets."""

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Set conditions and nominations of pods."""

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Patch objects of any kind."""

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Store new objects of any kind."""

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Delete objects of any kind."""


class TermCluster(ClusterWrites, Protocol):
    """The operations of a cluster that a term needs."""

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """Return the current object. NotFound."""


class Cluster(TermCluster, Protocol):
    """The operations of a cluster that a scheduler needs."""

    def informer(self, kinds: Sequence[str]) -> InformerPort:
        """Follow kinds; lists deliver them in this order."""

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """Store new events and update count and time of repeated ones; best effort, not fenced.

        A repeated one that is not there is stored anew.
        """


class ControlledCluster(Cluster, Protocol):
    """Adds the controllers' operations; in Kubernetes, kube-controller-manager does these."""

    def informer(self, kinds: Sequence[str], *, metadata_only: bool = False) -> InformerPort:
        """Follow kinds, in one stream; lists deliver them in this order.

        metadata_only: keep only the objects' metadata.
        """

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        """Delete all objects of a kind in a namespace; return their number."""


def eviction(pod: Pod, reason: str, message: str, *, grace: int | None = None) -> v1.EvictRequest:
    """Return the request that deletes this pod regardless of budgets.

    ``reason`` and ``message`` are those of the condition DisruptionTarget; no condition if "".
    """
    target = PodCondition(
        type=DISRUPTION_TARGET,
        status=TRUE,
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )
    return v1.EvictRequest(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        preconditions=v1.Preconditions(uid=pod.metadata.uid),
        ignore_disruption_budgets=True,
        grace_period_seconds=grace,
        condition=target if reason else None,
    )


def object_deletion(item: AnyObject, propagation_policy: str = "") -> v1.DeleteRequest:
    """Return the request that deletes this object, but no later one of its name."""
    return v1.DeleteRequest(
        kind=kind_of(item).name,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        propagation_policy=propagation_policy,
        preconditions=v1.Preconditions(uid=item.metadata.uid),
    )


def object_patch(item: AnyObject, body: Mapping[str, Any]) -> v1.PatchRequest:
    """Return a merge patch that applies only to this version of the object."""
    metadata, kind = item.metadata, kind_of(item).name
    request = merge_patch_request(kind, metadata.namespace, metadata.name, body, metadata.uid)
    request.resource_version = int(metadata.resource_version or 0)
    return request


def merge_patch_request(
    kind: str, namespace: str, name: str, body: Mapping[str, Any], uid: str
) -> v1.PatchRequest:
    """Return a merge patch; it applies to no other object of the name."""
    data = json.dumps(body).encode()
    return v1.PatchRequest(kind=kind, namespace=namespace, name=name, uid=uid, merge_patch=data)
