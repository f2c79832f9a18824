"""Record events about pods and workloads as kube-scheduler does: best effort, without delaying it.

The same event (object, reason, message) recorded again within ten minutes increments the count of
its object. The buffer is bounded and drops the oldest events, as kube-scheduler's broadcaster does.
An event that could not be written becomes a new object when it is recorded again. While the
scheduler is busy, few events are written per second, so that they do not compete with bindings.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from podsched.api.kinds import KINDS
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.lib.printable import shortened
from podsched.serve.client.errors import ClientError
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1 import objects_pb2 as v1

_log = get_logger("events")

#: Longest note in bytes, as in ``truncateMessage``; longer ones end in " ...".
NOTE_LIMIT = 1024
#: Longest reportingInstance.
NAME_LIMIT = 128
#: Max events that wait to be written.
BUFFER = 20_000
#: Max events per call (each takes 60 to 100 us), and seconds between two calls.
BATCH, PERIOD = 50, 0.025
BUSY_BATCH, BUSY_PERIOD = 20, 0.1
#: Max events whose object is remembered, and seconds for which a repetition increments its count.
REMEMBERED = 4096
AGGREGATE_FOR = 600.0
#: Max seconds for which one Event object is updated: API servers drop Events after an hour.
COUNT_UP_FOR = 1800.0


class EventRecord(NamedTuple):
    """Something that happened to an object; ``at``: wall time; ``related``: such as a preemptor."""

    kind: str
    namespace: str
    name: str
    uid: str
    type: str
    reason: str
    action: str
    message: str
    controller: str
    at: float
    related: v1.ObjectReference | None


@dataclass(slots=True)
class _Seen:
    event_name: str
    count: int
    first: float
    last: float


class EventRecorder:
    """Collects events and writes them with ``write(new, repeated)``."""

    def __init__(
        self,
        write: Callable[[Sequence[v1.Event], Sequence[v1.Event]], Awaitable[None]],
        instance: str,
        busy: Callable[[], bool] = lambda: False,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._instance = instance[:NAME_LIMIT]
        self._busy = busy
        self._wall = wall
        self._outbox: Outbox[EventRecord] = Outbox(self._send, retry_for=0.0, given_up=_log_loss)
        self._numbers = count()
        self._seen: OrderedDict[tuple[str, str, str], _Seen] = OrderedDict()
        self._sequence = 0
        self.dropped = 0

    def record(
        self,
        about: v1.ObjectMeta,
        *,
        type_: str,
        reason: str,
        message: str,
        action: str = "",
        controller: str = "default-scheduler",
        kind: str = "Pod",
        related: v1.ObjectReference | None = None,
    ) -> None:
        """Note an event about an object of a kind; return at once."""
        # Drop the oldest event: the latest ones show the current state.
        if len(self._outbox) == BUFFER:
            self._outbox.drop_oldest()
            self.dropped += 1
        self._outbox.put(
            str(next(self._numbers)),
            EventRecord(
                kind,
                about.namespace,
                about.name,
                about.uid,
                type_,
                reason,
                action,
                shortened(message, NOTE_LIMIT),
                controller,
                self._wall(),
                related,
            ),
        )

    async def run(self) -> None:
        """Write the recorded events until cancelled."""
        while True:
            # While there is nothing to write, nothing wakes up.
            await self._outbox.wait()
            busy = self._busy()
            await asyncio.sleep(BUSY_PERIOD if busy else PERIOD)
            await self._outbox.flush(BUSY_BATCH if busy else BATCH)

    async def flush(self) -> None:
        """Write all recorded events, call after call; those that cannot be written are dropped."""
        while len(self._outbox):
            await self._outbox.flush(BATCH)

    async def _send(self, records: Sequence[EventRecord]) -> Sequence[None]:
        new: list[v1.Event] = []
        repeated: dict[str, v1.Event] = {}
        for record in records:
            event = self._event(record)
            if event.count == 1:
                new.append(event)
            else:
                # Of several repetitions in a call only the last is written: it has their count.
                repeated[event.metadata.name] = event
        try:
            await self._write(new, list(repeated.values()))
        except ClientError:
            # Sent or recorded again, each becomes a new object.
            for record in records:
                self._seen.pop(_key(record), None)
            raise
        return ()

    def _event(self, record: EventRecord) -> v1.Event:
        seen = self._remember(record)
        event = v1.Event(
            reason=record.reason,
            message=record.message,
            type=record.type,
            action=record.action,
            count=seen.count,
            reporting_controller=record.controller,
            reporting_instance=self._instance,
        )
        event.metadata.name = seen.event_name
        event.metadata.namespace = record.namespace or DEFAULT_NAMESPACE
        event.involved_object.kind = record.kind
        event.involved_object.api_version = KINDS[record.kind].api_version
        event.involved_object.namespace = record.namespace
        event.involved_object.name = record.name
        event.involved_object.uid = record.uid
        if record.related is not None:
            event.related.CopyFrom(record.related)
        event.source.component = record.controller
        event.first_timestamp.FromNanoseconds(int(seen.first * 1e9))
        event.last_timestamp.FromNanoseconds(int(record.at * 1e9))
        if record.action:
            # Events of controllers have neither action nor eventTime, as in Kubernetes: the API
            # server requires an action if there is an eventTime.
            event.event_time.CopyFrom(event.first_timestamp)
        return event

    def _remember(self, record: EventRecord) -> _Seen:
        key = _key(record)
        seen = self._seen.get(key)
        if seen is None or not _counts_up(seen, record.at):
            self._sequence += 1
            # The name is unique by the microsecond and a number. Names have at most 253 characters.
            stamp = int(record.at * 1e6)
            seen = _Seen(
                f"{record.name[:200]}.{stamp:x}{self._sequence:x}", 0, record.at, record.at
            )
            self._seen[key] = seen
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        self._seen.move_to_end(key)
        seen.count += 1
        seen.last = record.at
        return seen


def _log_loss(records: Sequence[EventRecord], failure: ClientError) -> None:
    _log.warning("Could not write events", events=len(records), error=str(failure))


def _key(record: EventRecord) -> tuple[str, str, str]:
    return (record.uid or record.name, record.reason, record.message)


def _counts_up(seen: _Seen, at: float) -> bool:
    """Whether an event at this time increments the count of the earlier ones' object."""
    return at - seen.last <= AGGREGATE_FOR and at - seen.first <= COUNT_UP_FOR
