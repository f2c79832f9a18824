"""The decision log of a replica: takes entries from the scheduling cycle, and writes them.

    scheduling cycle --put--> buffer --thread, every PERIOD--> rows whose outcome is known --> store
                                |                       '--> rows that wait for it (at most HOLD)
                                '--full: dropped and counted

The cycle appends a tuple for each run of pods and for each outcome; everything else happens in the
thread. A decision is written when its outcome is known. If that takes longer than HOLD (Permit,
volumes), the decision is written without it, and once more when it is known. If its outcome was
dropped, it stays without one. A process that is killed loses the decisions of the last PERIOD, and
of the last HOLD those whose pods were being bound.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from podsched.ask.decisions.frames import FrameWriter, pod_mark
from podsched.ask.decisions.rows import (
    AGAIN,
    DECIDED,
    ENDED,
    FIELDS,
    MESSAGE,
    MORE,
    NAME,
    NAMESPACE,
    OUTCOME,
    TIMES,
    UID,
    DecisionQuery,
    find,
)
from podsched.ask.decisions.stores import DirectoryStore, MemoryStore, Store
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import DecisionMetrics
from podsched.term.cycle.outcomes import SCHEDULED
from podsched.v1 import decisions_pb2

_log = get_logger("decisions")

#: Seconds between two writes.
PERIOD = 0.25
#: Seconds for which a decision waits for its outcome before it is written without one.
HOLD = 1.0
#: Decisions in the buffer and waiting for their outcome beyond which further ones are dropped:
#: some 30 MB, and two seconds of the fastest workload.
MOST_BUFFERED = 20_000
#: Max rows in one frame. A reader decodes a whole frame even for a single row.
FRAME_ROWS = 1000
#: Default size in bytes: millions of decisions of a busy cluster, or weeks of a small one.
IN_A_DIRECTORY = 256 << 20
IN_MEMORY = 16 << 20
#: Format of the segments.
VERSION = 1


def facts_of(replica: str) -> dict[str, Any]:
    """Return the facts at the beginning of each segment."""
    return {"version": VERSION, "replica": replica, "fields": list(FIELDS)}


def open_log(place: str, size: int, replica: str, registry: MetricRegistry) -> DecisionLog | None:
    """Return the log of a replica's process, kept in a directory, in "memory", or "off": None.

    ``size``: bytes kept at most, 0 for the default. Raises DecisionLogError.
    """
    if place == "off":
        return None
    first = FrameWriter().facts(facts_of(replica), time.time())
    store: Store = MemoryStore(size or IN_MEMORY, first)
    if place != "memory":
        store = DirectoryStore(Path(place), size or IN_A_DIRECTORY, first)
    return DecisionLog(store, DecisionMetrics(registry))


class _WaitingRows:
    """Decisions that wait for their outcome, as rows; some have been written without one."""

    def __init__(self, since_epoch: float = 0.0) -> None:
        #: Unix time less monotonic time, as of the last flush.
        self.since_epoch = since_epoch
        self._open: dict[str, list[Any]] = {}
        """By uid."""
        self._written_open: set[str] = set()

    def __len__(self) -> int:
        return len(self._open)

    def wall(self, monotonic: float) -> float:
        """Return Unix seconds, to the microsecond."""
        return round(monotonic + self.since_epoch, 6)

    def decided(self, common: Sequence[Any], pods: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Add the decisions on a run of pods; return earlier ones of these pods, to be written."""
        done: list[list[Any]] = []
        profile, term, revision, rotation, draws, popped, decided, seconds = common
        together, since_epoch = len(pods), self.since_epoch
        popped, decided = self.wall(popped), self.wall(decided)
        for number, ns, name, uid, attempt, cls, evaluated, feasible, node, total, at, more in pods:
            done += self.give_up(uid)
            self._open[uid] = [
                number, ns, name, uid, attempt, profile, cls, term, revision,
                evaluated, feasible, node, total, together, rotation, draws,
                round(at + since_epoch, 6), popped, decided, seconds, "", "", 0.0, more,
            ]  # fmt: skip
        return done

    def give_up(self, uid: str) -> list[list[Any]]:
        """Wait no more for an outcome; return the decision if it is still to be written."""
        row = self._open.pop(uid, None)
        written = uid in self._written_open
        self._written_open.discard(uid)
        return [] if row is None or written else [row]

    def end(
        self, uid: str, outcome: str, message: str, ended: float, more: dict[str, Any] | None
    ) -> list[list[Any]]:
        """Note an outcome; return the decision, to be written, if it is known."""
        row = self._open.pop(uid, None)
        if row is None:
            return []
        row[OUTCOME], row[MESSAGE], row[ENDED] = outcome, message, ended
        if more:
            row[MORE] = {**(row[MORE] or {}), **more}
        if uid in self._written_open:
            self._written_open.discard(uid)
            row[MORE] = {**(row[MORE] or {}), AGAIN: True}
        return [row]

    def overdue(self, before: float) -> list[list[Any]]:
        """Return copies of open decisions that have waited long enough, each once."""
        overdue = [
            list(row)
            for uid, row in self._open.items()
            if row[DECIDED] <= before and uid not in self._written_open
        ]
        self._written_open.update(row[UID] for row in overdue)
        return overdue


class _Writer:
    """Writes frames, and counts what is lost."""

    def __init__(self, store: Store, metrics: DecisionMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._frames = FrameWriter()
        self._failing = False

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Write facts, which hold for all later rows."""
        self._write(self._frames.facts(facts, time.time()), 0)

    def write_rows(self, rows: list[list[Any]]) -> None:
        """Write rows as one frame."""
        ends = [row[ENDED] or row[DECIDED] for row in rows]
        pods = (pod_mark(row[NAMESPACE], row[NAME]) for row in rows)
        try:
            frame = self._frames.rows(rows, (min(ends), max(ends)), pods)
        except TypeError as error:
            # A row cannot be encoded, such as a score beyond 64 bits. Write the others one by one.
            if len(rows) > 1:
                for row in rows:
                    self.write_rows([row])
                return
            self._metrics.dropped.inc(1)
            _log.error("A decision cannot be logged", pod=rows[0][NAME], error=str(error))
            return
        self._write(frame, len(rows))

    def _write(self, frame: bytes, rows: int) -> None:
        try:
            self._store.append(frame)
        except OSError as error:
            self._metrics.dropped.inc(rows)
            if not self._failing:
                _log.error("The decision log cannot be written", error=str(error))
            self._failing = True
            return
        if self._failing:
            _log.info("The decision log is written again")
        self._failing = False
        self._metrics.written.inc(rows)
        self._metrics.written_bytes.inc(len(frame))


class DecisionLog:
    """Satisfies ``DecisionSink``; one thread writes, any thread may read."""

    def __init__(self, store: Store, metrics: DecisionMetrics) -> None:
        self._store = store
        self._metrics = metrics
        self._writer = _Writer(store, metrics)
        self._buffer: deque[tuple[Any, ...]] = deque()
        #: Decisions put into the buffer, and taken out of it. Each has only one writing thread, so
        #: no lock is needed.
        self._put = self._taken = 0
        self._number = 0
        #: Pods whose outcome was dropped since the last flush. If it is full, there may be more.
        self._lost: deque[str] = deque(maxlen=MOST_BUFFERED)
        self._waiting = _WaitingRows()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def close(self) -> None:
        """Write what is left, and stop."""
        self._ending = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self.flush(hold=0.0)
        self._store.close()

    # ------------------------------------------------------------------ called by the event loop

    def numbers(self, pods: int) -> int:
        """Reserve numbers for ``pods`` decisions; return the number before the first of them."""
        before = self._number
        self._number += pods
        return before

    def put(self, entry: tuple[Any, ...], pods: int = 0) -> None:
        """Take an entry about ``pods`` new decisions; see ``DecisionSink``."""
        waiting = self._put - self._taken + len(self._waiting)
        full = (pods and waiting + pods > MOST_BUFFERED) or len(self._buffer) > MOST_BUFFERED
        if full and entry[0] != "term":
            self._metrics.dropped.inc(pods)
            lost = _ended_in(entry)
            self._lost.extend(lost)  # read right before: the thread replaces it
            return
        self._put += pods
        self._buffer.append(entry)

    # ------------------------------------------------------------------ run by the thread

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(PERIOD)
            self.flush()

    def flush(self, hold: float = HOLD) -> None:
        """Write all complete decisions, and open ones that are at least ``hold`` seconds old."""
        with self._lock:
            wall = time.time()
            self._waiting.since_epoch = wall - time.monotonic()
            done = self._take()
            done += self._waiting.overdue(wall - hold)
            for start in range(0, len(done), FRAME_ROWS):
                self._writer.write_rows(done[start : start + FRAME_ROWS])

    def _take(self) -> list[list[Any]]:
        """Empty the buffer; return the rows that are complete."""
        done: list[list[Any]] = []
        waiting = self._waiting
        lost, self._lost = self._lost, deque(maxlen=MOST_BUFFERED)
        for _ in range(len(self._buffer)):
            kind, *entry = self._buffer.popleft()
            if kind == "decided":
                common, pods = entry
                done += waiting.decided(common, pods)
                self._taken += len(pods)
            elif kind == "bound":
                uids, now = entry
                ended = waiting.wall(now)
                for uid in uids:
                    done += waiting.end(uid, SCHEDULED, "", ended, None)
            elif kind == "ended":
                uid, outcome, message, now, more = entry
                done += waiting.end(uid, outcome, message, waiting.wall(now), more)
            elif kind == "row":
                (row,) = entry
                for place in TIMES:
                    row[place] = waiting.wall(row[place]) if row[place] else 0.0
                done.append(row)
                self._taken += 1
            else:
                # A new term: open decisions of the one before it will never get an outcome.
                done += self._give_up()
                waiting = self._waiting
                self._writer.write_facts(entry[0])
        # Decisions whose outcome was dropped would wait, and take room, until the next term.
        if len(lost) == MOST_BUFFERED:
            return done + self._give_up()
        for uid in lost:
            done += waiting.give_up(uid)
        return done

    def _give_up(self) -> list[list[Any]]:
        """Wait for no open decision any more; return those that are still to be written."""
        done = self._waiting.overdue(math.inf)
        self._waiting = _WaitingRows(self._waiting.since_epoch)
        return done

    # ------------------------------------------------------------------ reading

    def find(self, query: DecisionQuery) -> decisions_pb2.DecisionsResponse:
        """Return the latest decisions that match, the oldest first. Blocks: not for event loops."""
        self.flush()
        records = find(self._store.segments(), query)
        return decisions_pb2.DecisionsResponse(
            records=records,
            dropped=int(self._metrics.dropped.labels().value),
            more=len(records) >= query.limit,
        )

    def latest(
        self, namespace: str, name: str, uid: str = "", most: int = 10
    ) -> list[decisions_pb2.DecisionRecord]:
        """Return the latest decisions on one pod, the oldest first. Blocks."""
        query = DecisionQuery(namespace=namespace, name=name, limit=most)
        return [r for r in self.find(query).records if uid in ("", r.uid)]


def _ended_in(entry: tuple[Any, ...]) -> Sequence[str]:
    """Return the uids of the pods whose outcome an entry has."""
    if entry[0] == "bound":
        uids: Sequence[str] = entry[1]
        return uids
    return [entry[1]] if entry[0] == "ended" else ()
