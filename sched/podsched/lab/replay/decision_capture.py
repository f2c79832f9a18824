"""Write the leader's decisions, and checkpoints of their input, into a recording.

A checkpoint is taken once everything up to it is recorded, and another one for each state that is
built later, in another term or for another configuration. The decisions of a state before its
checkpoint cannot be repeated. If decisions are not available, the recording continues without them.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from google.protobuf import json_format

from podsched.api.objects import seconds_of, timestamp
from podsched.lab.replay.capture import Capture
from podsched.lab.replay.recording import RecordingWriter
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsRequest
from podsched.v1.scheduling_pb2 import SchedulingCheckpoint

#: Seconds between two questions for decisions.
PERIOD: Final = 1.0
#: Decisions up to this many seconds before the latest known one are requested again, because a
#: decision is written when its outcome is known.
_OVERLAP: Final = 5.0
#: Decisions in one answer.
_LIMIT: Final = 1000
#: Seconds to wait at the end for outcomes, and for changes that decisions were based on.
_AT_THE_END: Final = 1.5


class DecisionCapture:
    """Follows the leader's decisions for one recording."""

    def __init__(
        self,
        client: ApiClient,
        writer: RecordingWriter,
        capture: Capture,
        clock: Callable[[], float],
    ) -> None:
        """``capture``: of the objects; ``clock``: seconds since the start."""
        self._client = client
        self._writer = writer
        self._capture = capture
        self._progress = capture.progress
        self._clock = clock
        #: The next decisions ended then at the earliest, by the leader's clock; None before the
        #: first ones are known.
        self._since: float | None = None
        #: The state of the latest checkpoint, None once there is a later state: its term, and the
        #: number of the last decision before it.
        self._state: tuple[int, int] | None = None
        #: The outcomes of the decisions written, "" while unknown.
        self._written: dict[tuple[int, int], str] = {}
        self._revision = 0
        #: Whether the last round wrote all pages.
        self._whole = True
        #: Why there are no decisions; "" while there are.
        self.problem = ""

    async def run(self) -> None:
        """Record until cancelled."""
        await self._capture.synced.wait()
        while True:
            try:
                if self._state is None:
                    await self._checkpoint()
                await self._poll()
                self.problem = ""
            except ClientError as error:
                self.problem = str(error)
            await asyncio.sleep(PERIOD if self._state else PERIOD / 5)

    async def finish(self) -> None:
        """Record what is still missing: the last outcomes, and the changes before them."""
        if self._state is None and not self._written:
            return
        await asyncio.sleep(_AT_THE_END)
        try:
            await self._poll()
        except ClientError as error:
            self.problem = str(error)
        # Decisions may depend on changes that were not received yet: their revisions tell.
        with suppress(TimeoutError):
            async with asyncio.timeout(_AT_THE_END):
                await self._capture.wait_for_revision(self._revision)

    async def _checkpoint(self) -> None:
        found = unpacked(await self._client.checkpoint())
        if found["revision"] < self._progress.listed:
            return  # the leader has not seen yet what the recording begins with
        self._state = found["term"], found.get("begun_after", 0)
        self._writer.note(self._clock(), "checkpoint", found)

    async def _poll(self) -> None:
        """Write new decisions, the latest pages first."""
        if self._since is None:
            last = await self._client.decisions(DecisionsRequest(limit=1))
            self._since = max(map(_when, last.records), default=_OVERLAP) - _OVERLAP
        request = DecisionsRequest(since=timestamp(self._since), limit=_LIMIT)
        latest = self._since + _OVERLAP
        # Of a round that failed, only the latest pages are written.
        whole, self._whole = self._whole, False
        while True:
            found = await self._client.decisions(request)
            new = sum(self._write(record) for record in found.records)
            if found.records:
                latest = max(latest, _when(found.records[-1]))
            if not found.more or (whole and not new):
                break
            until = timestamp(_when(found.records[0]))
            if until == request.until:
                break  # one time has more decisions than an answer
            request.until.CopyFrom(until)
        self._whole = True
        self._since = latest - _OVERLAP
        if len(self._written) > 20 * _LIMIT:
            for key in list(self._written)[: -10 * _LIMIT]:
                del self._written[key]

    def _write(self, record: DecisionRecord) -> bool:
        key = (record.term, record.number)
        if self._written.get(key) == record.outcome or record.bound_node:
            return False
        if self._state is not None and (record.term, record.begun_after) > self._state:
            self._state = None  # its checkpoint comes with the next round
        self._written[key] = record.outcome
        self._revision = max(self._revision, record.revision)
        self._writer.note(self._clock(), "decision", json_format.MessageToDict(record))
        self._progress.decisions += 1
        return True


def unpacked(checkpoint: SchedulingCheckpoint) -> Mapping[str, Any]:
    """Return a checkpoint as plain data. Raises ClientError if it cannot be read."""
    try:
        found = json.loads(gzip.decompress(checkpoint.content))
        if not isinstance(found, dict) or not {"term", "revision", "number"} <= found.keys():
            raise ValueError("fields are missing")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ClientError(f"the leader's checkpoint cannot be read: {error}") from error
    return found


def _when(record: DecisionRecord) -> float:
    stamp = record.ended_time if record.HasField("ended_time") else record.decided_time
    return seconds_of(stamp)
