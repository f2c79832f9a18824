"""Keeps the objects of some kinds of a Kubernetes cluster current, by one watch for each.

The counterpart of ``serve.client.informer.Informer`` for podsched's API servers. Kubernetes has no
stream of all kinds, so only lists have an order across kinds: they are delivered in the order of
the kinds, claims before the pods that name them. ``revision`` counts the delivered batches, because
Kubernetes' resourceVersions are opaque and can only be compared for equality.

A new leader waits in ``wait_for_revision`` until it has seen its predecessor's writes. A watch does
not report its progress, so the pods without a node are listed once: a pod that has no node in the
cache and is not in the list has been bound or deleted, and its event is waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Final

from podsched.api.kinds import KINDS
from podsched.api.objects import Pod
from podsched.lib.backoff import Backoff
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Batch, Event, Handler, Mirror, MirrorReader
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.lists import pages
from podsched.serve.kube.paths import collection
from podsched.serve.kube.reflector import Reflector, WatchEvent
from podsched.telemetry.logs import get_logger

_log = get_logger("informer")

#: As kube-scheduler's: finished pods use no resources, and there may be very many.
UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_UNBOUND: Final = f"spec.nodeName=,{UNFINISHED}"
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
#: Objects of a list delivered before yielding to other tasks.
_CHUNK = 250
#: Seconds that a new leader waits for the events of its predecessor's bindings.
_CATCH_UP = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


class KubeInformer(MirrorReader):
    """An ``InformerPort``, which its reflectors keep current; ``run`` it once, as a task."""

    def __init__(self, http: KubeHttp, kinds: Sequence[str]) -> None:
        super().__init__(kinds)
        self._http = http
        self._reflectors = {
            name: Reflector(
                http, KINDS[name], self, field_selector=UNFINISHED if name == "Pod" else ""
            )
            for name in self.kinds
        }
        #: Set when the first list of a kind is delivered.
        self._delivered = {name: asyncio.Event() for name in self.kinds}
        self._handler: Handler | None = None
        #: Set with each batch.
        self._moved = asyncio.Event()

    @property
    def relists(self) -> int:
        """Number of repeated lists of kinds."""
        return sum(reflector.relists for reflector in self._reflectors.values())

    def problem(self) -> str:
        """Return the first kind that is not current, and why; "" if all are."""
        found = (f"{k}: {r.problem}" for k, r in self._reflectors.items() if r.problem)
        return next(found, "")

    def pace(self, milliseconds: int) -> None:
        """Do nothing: a kube-apiserver sends each change separately."""

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until all writes before this call have been delivered.

        ``revision`` is ignored, because the cluster has its own resourceVersions. Gives up after
        _CATCH_UP seconds, which is safe: a pod bound meanwhile cannot be bound again.
        """
        await self.synced.wait()
        if "Pod" not in self._reflectors:
            return
        believed = {
            (key, pod.metadata.uid)
            for key, pod in self._mirror.stores["Pod"].items()
            if isinstance(pod, Pod) and not pod.spec.node_name
        }
        outdated = believed - await _without_node(self._http)
        try:
            async with asyncio.timeout(_CATCH_UP):
                while outdated := {item for item in outdated if self._is_unbound(*item)}:
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            _log.warning("Not all bindings of the last leader were seen", pods=len(outdated))

    async def run(self, handler: Handler) -> None:
        """Follow until cancelled, retrying after outages. An error of the handler ends it."""
        self._handler = handler
        tasks = TaskSet("the informer")
        for name, reflector in self._reflectors.items():
            tasks.start(reflector.run(), f"reflector {name}", endless=True)
        await tasks.run()

    async def listed(self, kind: str, objects: Mirror) -> None:
        """Replace all objects of a kind; first lists in the order of the kinds."""
        if not self._delivered[kind].is_set():
            await self._turn_of(kind)
        events: list[Event] = []
        for some in self._mirror.differences(objects):
            events += some
            await asyncio.sleep(0)
        self._mirror.adopt(objects)
        for start in range(0, max(len(events), 1), _CHUNK):
            self._deliver(events[start : start + _CHUNK], partial=start + _CHUNK < len(events))
            await asyncio.sleep(0)
        self._delivered[kind].set()
        if all(event.is_set() for event in self._delivered.values()):
            self.synced.set()

    def changed(self, kind: str, events: Sequence[WatchEvent]) -> None:
        """Deliver changes, in order."""
        taken = (self._mirror.apply(type_, kind, key, item) for type_, key, item in events)
        self._deliver([event for event in taken if event is not None])

    def _deliver(self, events: Sequence[Event], *, partial: bool = False) -> None:
        assert self._handler is not None
        self._mirror.revision += 1
        self._moved.set()
        self._handler(Batch(self._mirror.revision, events, partial))

    async def _turn_of(self, kind: str) -> None:
        """Wait until the kinds before this one are delivered."""
        for name, delivered in self._delivered.items():
            if name == kind:
                return
            await delivered.wait()

    def _is_unbound(self, key: str, uid: str) -> bool:
        pod = self._mirror.stores["Pod"].get(key)
        return isinstance(pod, Pod) and pod.metadata.uid == uid and not pod.spec.node_name


async def _without_node(http: KubeHttp) -> set[tuple[str, str]]:
    """Return key and uid of the pods that have no node, by a consistent read."""
    backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
    params = {"fieldSelector": _UNBOUND, "limit": "5000"}
    headers = {"Accept": f"{_METADATA_ONLY},application/json"}
    while True:
        try:
            return {
                (f"{metadata['namespace']}/{metadata['name']}", metadata["uid"])
                async for page in pages(http, collection(KINDS["Pod"]), params, headers)
                for metadata in (item["metadata"] for item in page.get("items") or ())
            }
        except ClientError as error:
            _log.warning("Could not list the pods without a node", error=str(error))
        await asyncio.sleep(backoff.next_delay())
