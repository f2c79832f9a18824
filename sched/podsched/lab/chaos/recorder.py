"""The recorder: appends all that happens to one file, in the order in which it is seen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from podsched.api.etcd_keys import ROOT
from podsched.lab.chaos.facts import change_of
from podsched.lab.chaos.records import Change, FencedWrite, Record, Revision, encode
from podsched.serve.store.protocol import EventType, Store, WatchEvent


class Recorder:
    """An open history; its clock starts with it."""

    def __init__(self, path: Path) -> None:
        """Open the file. Raises OSError."""
        self._file: IO[str] = path.open("w")
        self._began = time.monotonic()
        self._began_wall = time.time()
        self.path = path
        self.revision = 0
        """The last revision that was recorded."""
        self._moved = asyncio.Event()
        self._observers: list[Callable[[Revision], None]] = []

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def observe(self, observer: Callable[[Revision], None]) -> None:
        """Have each revision told to an observer."""
        self._observers.append(observer)

    def write(self, record: Record) -> None:
        """Append a record."""
        self._file.write(encode(record) + "\n")

    async def watch(self, store: Store) -> None:
        """Record every revision of etcd from the first one on, until cancelled.

        Raises:
            StoreError: the watch cannot go on; the history would have a gap.
        """
        async for batch in store.watch(ROOT, start_revision=1):
            for number, changes in _by_revision(batch.events):
                revision = Revision(at=self.now, number=number, changes=changes)
                self.write(revision)
                self.revision = number
                for observer in self._observers:
                    observer(revision)
            self._file.flush()
            self._moved.set()
            self._moved = asyncio.Event()

    async def until(self, revision: int) -> None:
        """Wait until this revision was recorded."""
        while self.revision < revision:
            await self._moved.wait()

    def fenced_writes(self, server: str, log: Path) -> None:
        """Append what an API server's audit log says of fenced writes. Raises OSError."""
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
        """Close the file."""
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
    """Yield the fenced writes of an audit log; a line that a killed server left in part is no one.

    A file that is not there has none.
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
