"""The recorder: appends everything that the promises concern to one file."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from google.protobuf.message import DecodeError

from podsched.api.conditions import DISRUPTION_TARGET, POD_READY
from podsched.api.etcd_keys import OBJECTS, ROOT, TERMS, parse_object_key
from podsched.api.objects import (
    AnyObject,
    Event,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
)
from podsched.cache.pod_class import relevant_spec
from podsched.lab.chaos.records import Change, FencedWrite, Record, Revision, encode
from podsched.lib.revisions import RevisionWaiters
from podsched.serve.store.protocol import EventType, Store, WatchEvent

_CONDITIONS = (POD_READY, DISRUPTION_TARGET)
_PREEMPTED = "Preempted"


def change_of(key: str, value: bytes | None) -> Change:
    """Return the record of a key's new value; None: it was deleted."""
    short = key.removeprefix(OBJECTS if key.startswith(OBJECTS) else ROOT)
    if value is None:
        return Change(key=short, deleted=True)
    if key.startswith(TERMS):
        return Change(key=short, holder=value.decode(errors="replace"))
    parsed = parse_object_key(key)
    if parsed is None:
        return Change(key=short)
    try:
        message = parsed[0].message.FromString(value)
    except DecodeError:
        return Change(key=short)
    return Change(key=short, uid=message.metadata.uid, object=_kept(message))


def _kept(item: AnyObject) -> Any:
    """Return the parts of an object that promises concern; None if there are none."""
    kept: Any = type(item)()
    meta = kept.metadata
    meta.name, meta.namespace = item.metadata.name, item.metadata.namespace
    meta.labels.update(item.metadata.labels)
    match item:
        case Pod():
            _keep_of_pod(item, kept)
        case Node():
            kept.spec.taints.extend(item.spec.taints)
            kept.spec.unschedulable = item.spec.unschedulable
            kept.status.allocatable.update(item.status.allocatable)
        case ResourceClaim():
            kept.status.allocation.devices.results.extend(item.status.allocation.devices.results)
            kept.status.reserved_for.extend(item.status.reserved_for)
        case PersistentVolumeClaim():
            kept.spec.access_modes.extend(item.spec.access_modes)
        case PodDisruptionBudget():
            kept.spec.selector.CopyFrom(item.spec.selector)
            kept.status.CopyFrom(item.status)
            kept.status.ClearField("conditions")
        case Event() if item.reason == _PREEMPTED:
            kept.reason, kept.message = item.reason, item.message
            kept.involved_object.uid = item.involved_object.uid
        case _:
            return None
    if isinstance(item, Pod | Node):
        for condition in item.status.conditions:
            if condition.type in _CONDITIONS:
                kept.status.conditions.add(
                    type=condition.type, status=condition.status, reason=condition.reason
                )
    return kept


def _keep_of_pod(item: Pod, kept: Pod) -> None:
    if item.metadata.HasField("deletion_timestamp"):
        kept.metadata.deletion_timestamp.CopyFrom(item.metadata.deletion_timestamp)
    kept.spec.CopyFrom(relevant_spec(item.spec))
    kept.spec.node_name = item.spec.node_name
    kept.spec.scheduling_group.MergeFrom(item.spec.scheduling_group)
    kept.status.phase = item.status.phase
    kept.status.nominated_node_name = item.status.nominated_node_name


class Recorder:
    """An open history; its clock starts with it."""

    def __init__(self, path: Path, observer: Callable[[Revision], None] = lambda _: None) -> None:
        """Open the file. ``observer`` is called with each revision. Raises OSError."""
        self._file: IO[str] = path.open("w", encoding="utf-8")
        self._began = time.monotonic()
        self._began_wall = time.time()
        self._observer = observer
        self._revision = 0
        self._waiters = RevisionWaiters()

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def write(self, record: Record) -> None:
        self._file.write(encode(record) + "\n")

    async def watch(self, store: Store) -> None:
        """Record every revision of etcd from the first one on, until cancelled.

        Raises StoreError if the watch cannot go on; the history would have a gap.
        """
        async for batch in store.watch(ROOT, start_revision=1):
            for number, changes in _by_revision(batch.events):
                revision = Revision(at=self.now, number=number, changes=changes)
                self.write(revision)
                self._revision = number
                self._observer(revision)
            self._file.flush()
            self._waiters.reached(self._revision)

    async def until(self, revision: int) -> None:
        """Wait until this revision was recorded."""
        if self._revision < revision:
            await self._waiters.wait_for(revision)

    def fenced_writes(self, server: str, log: Path) -> None:
        """Append the fenced writes of an API server's audit log. Raises OSError."""
        for event in _fenced(log):
            annotations = event["annotations"]
            lock, _, term = annotations["podsched.io/fence"].rpartition(":")
            pods = _listed(annotations.get("podsched.io/first-items", ""))
            stamp = datetime.strptime(event["stageTimestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
            self.write(
                FencedWrite(
                    at=stamp.replace(tzinfo=UTC).timestamp() - self._began_wall,
                    server=server,
                    method=event["requestURI"].rpartition("/")[2],
                    lock=lock,
                    term=int(term),
                    pods=pods,
                    more=int(annotations.get("podsched.io/items", len(pods))) - len(pods),
                    revisions=_listed(annotations.get("podsched.io/revisions", "")),
                    unheard=annotations["podsched.io/grpc-status"] != "OK",
                )
            )

    def close(self) -> None:
        self._file.close()


def _by_revision(events: Sequence[WatchEvent]) -> Iterator[tuple[int, tuple[Change, ...]]]:
    """Yield each revision's number and changes."""
    changes: list[Change] = []
    number = 0
    for event in events:
        if event.kv.mod_revision != number and changes:
            yield number, tuple(changes)
            changes = []
        number = event.kv.mod_revision
        value = event.kv.value if event.type is EventType.PUT else None
        changes.append(change_of(event.kv.key, value))
    if changes:
        yield number, tuple(changes)


def _fenced(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the fenced writes of an audit log, without an incomplete last line.

    A missing file has none.
    """
    if not log.exists():
        return
    with log.open() as lines:
        for line in lines:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if event["annotations"].get("podsched.io/fence"):
                    yield event


def _listed(text: str) -> Any:
    return tuple(text.split(",")) if text else ()
