"""Implements the scheduler's ``Cluster`` on a Kubernetes cluster.

Items of a batch are sent concurrently within ``qps`` and ``burst``; each is retried independently
while the server cannot be reached, and has its own result.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from podsched.api.kinds import find_kind, kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Event
from podsched.api.trace_context import to_metadata
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client import errors
from podsched.serve.kube import writes
from podsched.serve.kube.events import EventWrites
from podsched.serve.kube.fenced import FencedWrites, Leads, each
from podsched.serve.kube.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH, KubeHttp
from podsched.serve.kube.informer import KubeInformer
from podsched.serve.kube.objects import read_object
from podsched.serve.kube.paths import collection, of_object
from podsched.serve.kube.pod_writes import PodWrites
from podsched.serve.kube.protobuf import PROTOBUF, add_finalizers
from podsched.v1 import api_pb2 as v1


class KubeCluster:
    """A ``Cluster``; the caller closes ``http``."""

    def __init__(
        self,
        http: KubeHttp,
        leads: Leads,
        *,
        qps: float = 50.0,
        burst: int = 100,
        now: Callable[[], float] = time.time,
    ) -> None:
        """qps: requests per second on average, no limit if 0 or less. burst: requests at once."""
        # Events have a limit of their own, as in kube-scheduler: they delay no bindings.
        limits = [TokenBucket(qps, max(burst, 1)) if qps > 0 else None for _ in range(2)]
        self._http = http
        self._fenced = FencedWrites(http, leads, limits[0])
        self._pods = PodWrites(http, self._fenced, now)
        self._events = EventWrites(http, limits[1])

    def informer(self, kinds: Sequence[str]) -> KubeInformer:
        """See ``Cluster``. Status patches take the conditions' times from its pods."""
        informer = KubeInformer(self._http, kinds)
        self._pods.known_pod = lambda key: informer.get("Pod", key)
        return informer

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        known = find_kind(kind)
        content = await self._http.request("GET", of_object(known, name, namespace))
        return read_object(known, content)

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        headers = dict(to_metadata(traceparent.partition(",")[0]))
        return await each(bindings, lambda wanted: self._pods.bind(wanted, fence, headers))

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster``; preemption deletes, as in kube-scheduler, all others evict."""
        return await each(evictions, lambda wanted: self._pods.evict(wanted, fence))

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await each(patches, lambda wanted: self._pods.patch_status(wanted, fence))

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await each(patches, lambda wanted: self._patch(wanted, fence))

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        def create(item: AnyObject) -> Awaitable[v1.BatchResult]:
            path, body = collection(kind_of(item), item.metadata.namespace), to_manifest(item)
            # If the first attempt had been done, a second would end with AlreadyExists.
            return self._fenced.write("POST", path, body, fence, repeatable=False)

        return await each(items, create)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        def delete(wanted: v1.DeleteRequest) -> Awaitable[v1.BatchResult]:
            path = of_object(find_kind(wanted.kind), wanted.name, wanted.namespace)
            return self._fenced.write("DELETE", path, writes.delete_options(wanted), fence)

        return await each(deletions, delete)

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        await self._events.record(new, repeated)

    # ------------------------------------------------------------------ patches

    async def _patch(self, wanted: v1.PatchRequest, fence: v1.Fence) -> v1.BatchResult:
        strategic = wanted.type == v1.STRATEGIC_MERGE_PATCH
        form = STRATEGIC_MERGE_PATCH if strategic else MERGE_PATCH
        body, kind = writes.object_patch(wanted), find_kind(wanted.kind)
        metadata = body.get("metadata", {})
        if "status" in body and "finalizers" in metadata:
            # A patch of the status does not change finalizers.
            path = of_object(kind, wanted.name, wanted.namespace)
            version = await self._write_finalizers(path, metadata, fence, form)
            body["metadata"] = {"resourceVersion": version}
        # Kubernetes ignores the status in a patch of the object itself.
        part = "status" if body.keys() - {"metadata"} == {"status"} else ""
        path = of_object(kind, wanted.name, wanted.namespace, part)
        return await self._fenced.write("PATCH", path, body, fence, form)

    async def _write_finalizers(
        self, path: str, metadata: Mapping[str, Any], fence: v1.Fence, form: str
    ) -> str:
        """Write an object's finalizers, and return its new resourceVersion.

        The API server compares the opaque parameters of a claim byte by byte, and a patch encodes
        them again. If they were stored with spaces between the tokens, it refuses the patch because
        the spec is immutable. In protobuf, which kube-scheduler uses, they remain as they are.
        """
        try:
            written = await self._fenced.send("PATCH", path, {"metadata": metadata}, fence, form)
        except errors.Invalid:
            stored = await self._http.request_bytes("GET", path, headers={"Accept": PROTOBUF})
            changed = add_finalizers(
                stored,
                metadata["finalizers"],
                uid=metadata.get("uid", ""),
                resource_version=metadata.get("resourceVersion", ""),
            )
            written = await self._fenced.send("PUT", path, changed, fence, PROTOBUF)
        version: str = written["metadata"]["resourceVersion"]
        return version
