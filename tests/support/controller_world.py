"""Controllers on objects in memory, at a time the test sets; it says when writes are applied."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from podsched.api.kinds import kind_of
from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import AnyObject, Lease, Node, ObjectMeta, Pod, object_key, timestamp
from podsched.api.owners import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from podsched.serve.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from podsched.serve.client.informer import Event, EventType
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import Controller, Instant
from podsched.term.controllers.dispatch import Dispatch
from podsched.term.controllers.write_queues import AbsentObject, Done, Request, Writes
from podsched.v1.api_pb2 import DeleteRequest, EvictRequest, PatchRequest

START = 1_700_000_000.0
FINALIZERS = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}


class Eviction(NamedTuple):
    """A pod evicted, and how long after the start."""

    key: str
    after: float


def _tell_outcome(done: Done | None, error: ClientError | None) -> None:
    if done is not None:
        done(error)


class ControllerWorld:
    """Objects, time, and the one controller that is tested."""

    def __init__(self) -> None:
        self.time = START
        self.metrics = ControllerMetrics(MetricRegistry())
        self.evicted: list[Eviction] = []
        self.deleted: list[str] = []
        """Kind, key and propagation policy of what was deleted."""
        self.emptied: list[str] = []
        self.hidden: set[AbsentObject] = set()
        """What the API server has although the controller does not see it."""
        self.recorded: list[str] = []
        """The messages of events."""
        self.events: list[str] = []
        """Events with object, type and reason."""
        self.faults: list[str] = []
        self.controller: Controller | None = None
        self._stores: dict[str, dict[str, AnyObject]] = {}
        self.refuse: Callable[[AnyObject], ClientError | None] = lambda _: None
        """What keeps an object from being created."""
        self.lost = False
        """Whether what is created is never seen."""
        self._patches: dict[str, tuple[PatchRequest, Done | None, Callable[[], None]]] = {}
        self._evictions: dict[str, EvictRequest] = {}
        self._deletions: dict[str, tuple[DeleteRequest, Done | None]] = {}
        self._created: list[tuple[AnyObject, Done | None]] = []
        self._retries: list[Callable[[], None]] = []
        self._version = 0

    @property
    def now(self) -> Instant:
        return Instant(self.time, self.time - START)

    # what the controller sees

    def objects(self, kind: str) -> Mapping[str, AnyObject]:
        return self._stores.setdefault(kind, {})

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.objects(kind).get(key)

    def pods_on(self, node: str) -> list[str]:
        pods = self.objects("Pod").items()
        return [key for key, p in pods if isinstance(p, Pod) and p.spec.node_name == node]

    # what it does

    def send(
        self,
        key: str,
        request: Request,
        again: Callable[[], None],
        *,
        without: Sequence[AbsentObject] = (),
        done: Done | None = None,
    ) -> None:
        if not self.hidden.isdisjoint(without):
            return
        if isinstance(request, PatchRequest):
            self._patches[f"{request.kind} {key}"] = (request, done, again)
        elif isinstance(request, DeleteRequest):
            self._deletions[f"{request.kind} {key}"] = (request, done)
        elif isinstance(request, EvictRequest):
            self._evictions[key] = request
        else:
            self._created.append((request, done))

    def empty(self, namespace: str, uid: str, again: Callable[[], None]) -> None:
        self.emptied.append(namespace)
        self._retries.append(again)

    @property
    def pending_deletions(self) -> list[str]:
        """What is to be deleted next."""
        return [*self._deletions]

    def not_empty_yet(self) -> None:
        """What was to be emptied was not."""
        retries, self._retries = self._retries, []
        for retry in retries:
            retry()

    def cancel_eviction(self, key: str) -> None:
        self._evictions.pop(key, None)

    def cancel_deletion(self, kind: str, key: str) -> None:
        self._deletions.pop(f"{kind} {key}", None)

    def skipped(self, kind: str, key: str, error: Exception) -> None:
        self.faults.append(f"{kind} {key}: {type(error).__name__}")

    skipping = Writes.skipping

    def record(
        self,
        about: ObjectMeta,
        *,
        type_: str,
        reason: str,
        action: str = "",
        message: str,
        controller: str = "",
        kind: str = "Pod",
    ) -> None:
        self.recorded.append(message)
        self.events.append(f"{kind} {about.name} {type_} {reason}: {message}")

    # the test's hand

    def start(self, controller: Controller) -> None:
        """The controller begins with what is there."""
        for _ in self.starting(controller):
            pass
        self.settle()

    def starting(self, controller: Controller) -> Iterator[None]:
        """The controller reads what is there, step by step."""
        self.controller = controller
        dispatch = Dispatch(
            [controller], lambda _, kind, key, error: self.skipped(kind, key, error)
        )
        return dispatch.start([controller], self, self.now)

    def start_anew(self, controller: Controller) -> None:
        """Another leader's controller begins; what the last one had not written is lost."""
        self._patches, self._deletions, self._created = {}, {}, []
        for _ in self.starting(controller):
            pass

    def step(self) -> None:
        """Let the controller work once, and apply what it writes."""
        assert self.controller is not None
        self.controller.work(self.now)
        self.apply()

    def put(self, item: AnyObject) -> AnyObject:
        """Store an object as it is now, and tell the controller."""
        event = self._store(item)
        self._tell(event)
        assert event.new is not None
        return event.new

    def put_in_one_batch(self, *items: AnyObject) -> None:
        """Store objects, then tell the controller of each: it can see ahead of what it is told."""
        for event in [self._store(item) for item in items]:
            self._tell(event)

    def _store(self, item: AnyObject) -> Event:
        copy = type(item)()
        copy.CopyFrom(item)  # type: ignore[arg-type]
        kind, key = kind_of(copy).name, object_key(copy)
        self._version += 1
        copy.metadata.resource_version = str(self._version)
        copy.metadata.uid = copy.metadata.uid or f"uid-{kind}-{key}"
        old = self.get(kind, key)
        self._stores.setdefault(kind, {})[key] = copy
        return Event(EventType.MODIFIED if old else EventType.ADDED, kind, key, old, copy)

    def remove(self, kind: str, key: str) -> None:
        """Delete an object, and tell the controller."""
        old = self._stores[kind].pop(key)
        self._tell(Event(EventType.DELETED, kind, key, old, None))

    def _tell(self, event: Event) -> None:
        if self.controller is not None and event.kind in self.controller.kinds:
            self.controller.changed(event, self.now)

    def settle(self) -> float | None:
        """Let the controller work, and apply what it writes, until it writes no more."""
        assert self.controller is not None
        for _ in range(50):
            due = self.controller.work(self.now)
            if not (self._patches or self._evictions or self._deletions or self._created):
                return due
            self.apply()
        raise AssertionError("the controller does not come to rest")

    def apply(self) -> None:
        patches, self._patches = self._patches, {}
        evictions, self._evictions = self._evictions, {}
        deletions, self._deletions = self._deletions, {}
        created, self._created = self._created, []
        for item, done in created:
            error = self.refuse(item)
            if error is None and self.get(kind_of(item).name, object_key(item)) is not None:
                error = AlreadyExists("it exists")
            if error is None and not self.lost:
                item.metadata.creation_timestamp.CopyFrom(timestamp(self.time, whole=True))
                self.put(item)
            _tell_outcome(done, error)
        for request, done, again in patches.values():
            key = f"{request.namespace}/{request.name}" if request.namespace else request.name
            item = self.get(request.kind, key)
            if item is None:
                _tell_outcome(done, NotFound("it is gone"))
                continue
            if request.resource_version not in (0, int(item.metadata.resource_version)):
                _tell_outcome(done, Conflict("it has changed"))
                again()
                continue
            patched = apply_merge_patch(item, json.loads(request.merge_patch)).message
            self._put_or_remove(request.kind, key, patched)
            _tell_outcome(done, None)
        for what, (deletion, done) in deletions.items():
            kind, _, key = what.partition(" ")
            self._delete(kind, key, deletion)
            _tell_outcome(done, None)
        for key in evictions:
            self.evicted.append(Eviction(key, self.time - START))
            self.remove("Pod", key)

    def _put_or_remove(self, kind: str, key: str, item: AnyObject) -> None:
        if item.metadata.HasField("deletion_timestamp") and not item.metadata.finalizers:
            self.remove(kind, key)
        else:
            self.put(item)

    def _delete(self, kind: str, key: str, request: DeleteRequest) -> None:
        item = self.get(kind, key)
        if item is None or item.metadata.uid != request.preconditions.uid:
            return
        self.deleted.append(f"{kind} {key} {request.propagation_policy}")
        self.mark(item, request.propagation_policy)

    def mark(self, item: AnyObject, policy: str = "") -> None:
        """Delete as an API server does, at once if there is no finalizer."""
        copy = type(item)()
        copy.CopyFrom(item)  # type: ignore[arg-type]
        if policy in FINALIZERS:
            copy.metadata.finalizers.append(FINALIZERS[policy])
        grace = 30 if isinstance(copy, Pod) else 0
        copy.metadata.deletion_timestamp.CopyFrom(timestamp(self.time + grace))
        copy.metadata.deletion_grace_period_seconds = grace
        self._put_or_remove(kind_of(copy).name, object_key(copy), copy)

    def wait(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass in steps, the controller working at each."""
        end = self.time + seconds
        while self.time < end:
            self.time = min(end, self.time + step)
            self.settle()

    def pod(self, key: str) -> Pod:
        item = self.get("Pod", key)
        assert isinstance(item, Pod)
        return item

    def node(self, name: str) -> Node:
        item = self.get("Node", name)
        assert isinstance(item, Node)
        return item

    def taints(self, name: str) -> list[str]:
        """The taints of a node as key:effect, the domain left out."""
        return sorted(f"{t.key.rpartition('/')[2]}:{t.effect}" for t in self.node(name).spec.taints)

    def renew(self, *names: str, skew: float = 0.0) -> None:
        """The leases of nodes are renewed now; skew: how much their clock is ahead."""
        for name in names:
            lease = Lease()
            lease.metadata.name = name
            lease.metadata.namespace = "kube-node-lease"
            lease.spec.renew_time.CopyFrom(timestamp(self.time + skew))
            self.put(lease)


def ready_node(name: str, status: str = "True", **conditions: str) -> Node:
    """A node with a Ready condition and others."""
    node = Node()
    node.metadata.name = name
    for type_, value in {"Ready": status, **conditions}.items():
        node.status.conditions.add(type=type_, status=value)
    return node


def bound_pod(name: str, node: str = "", *, ready: bool = True, **labels: str) -> Pod:
    """A pod of the default namespace, Running if it is bound."""
    pod = Pod()
    pod.metadata.name = name
    pod.metadata.namespace = "default"
    pod.metadata.labels.update(labels)
    pod.spec.node_name = node
    if node:
        pod.status.phase = "Running"
        pod.status.conditions.add(type="Ready", status="True" if ready else "False")
    return pod
