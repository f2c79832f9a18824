"""Writes the audit log's file in its own thread.

A call only enqueues its event. If more than ``MAX_WAITING`` events or ``MAX_WAITING_BYTES`` wait,
or the disk is full, events are dropped: they are counted by cause, and logged once a minute. The
server is neither blocked nor stopped.

    FILE                        mode 0600, appended to
    FILE-2026-01-02T03-04-05.678901   earlier files, renamed when they reached the maximum size
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from podsched.serve.server.audit.events import AuditedCall, Level, attributes_of, event_line
from podsched.telemetry.logs import get_logger

if TYPE_CHECKING:
    from podsched.serve.server.audit.policy import AuditPolicy

_log = get_logger("audit")

MAX_WAITING: Final = 10_000
MAX_WAITING_BYTES: Final = 64 << 20
_WARN_EVERY = 60.0
_DAY = 86_400.0
#: What is added to the name of an earlier file, and how it looks.
_STAMP: Final = "-%Y-%m-%dT%H-%M-%S.%f"
_STAMPED: Final = re.compile(r"-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    """Settings of the audit log's file."""

    path: Path
    policy: AuditPolicy | None = None
    """Which calls are written; None: the metadata of every call."""
    max_bytes: int = 100 << 20
    """Size at which the file is renamed and a new one begun."""
    max_backups: int = 10
    """Earlier files kept; 0: all."""
    max_days: float = 0
    """Days for which earlier files are kept; 0: for ever."""


class _Waiting(NamedTuple):
    """A call to be written; size: approximate bytes that it occupies."""

    call: AuditedCall
    level: Level
    size: int


class AuditLog:
    """The audit log of a server."""

    def __init__(self, settings: AuditSettings) -> None:
        """Open the file. Raises OSError if it cannot be written."""
        self._settings = settings
        self._waiting: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._waiting_bytes = 0
        self._lock = threading.Lock()
        self._warned_at = -_WARN_EVERY
        #: Events written, and dropped by cause: "buffer" (too many wait), "log" (not written).
        self.written = 0
        self.dropped = {"buffer": 0, "log": 0}
        self._file: BinaryIO | None = self._open()
        # A daemon thread: a hanging disk must not prevent the process from exiting.
        self._thread = threading.Thread(target=self._run, name="audit log", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def record(self, call: AuditedCall) -> None:
        """Enqueue a call that has ended; does not block."""
        try:
            policy = self._settings.policy
            level = policy.level_of(attributes_of(call)) if policy is not None else Level.METADATA
        except Exception as error:  # a bug in auditing must not fail the call
            self._drop("log", repr(error))
            return
        if level is Level.NONE:
            return
        size = call.size
        # Without the lock: only this thread adds, and the other can only make more room.
        if self._waiting.qsize() >= MAX_WAITING or self._waiting_bytes + size > MAX_WAITING_BYTES:
            self._drop("buffer", "too many events wait to be written")
            return
        with self._lock:
            self._waiting_bytes += size
        self._waiting.put(_Waiting(call, level, size))

    def stop(self, within: float = 5.0) -> None:
        """Write the queued events, for at most ``within`` seconds, and close the file."""
        self._waiting.put(None)
        self._thread.join(within)

    # ------------------------------------------------------------------ in the thread

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            with self._lock:
                self._waiting_bytes -= item.size
            try:
                self._write(event_line(item.call, item.level).encode())
            except OSError as error:
                self._drop("log", str(error))
            except Exception as error:  # an event that cannot be encoded must not end the log
                self._drop("log", repr(error))
        if self._file is not None:
            self._file.close()

    def _write(self, line: bytes) -> None:
        """Append one whole line, or nothing. Raises OSError."""
        if self._file is None:
            self._file = self._open()
        size = self._file.tell()
        if size and size + len(line) > self._settings.max_bytes:
            self._rotate()
            size = 0
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError("the line was written in part: is the disk full?")
        except OSError:
            # The disk may be full: remove the partial line, so that all lines are complete.
            with contextlib.suppress(OSError):
                self._file.truncate(size)
                self._file.seek(size)
            raise
        self.written += 1

    def _open(self) -> BinaryIO:
        path = self._settings.path
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Unbuffered, so that written events survive a kill of the process.
        file = os.fdopen(handle, "ab", buffering=0)
        file.seek(0, os.SEEK_END)
        return file

    def _rotate(self) -> None:
        """Begin a new file. Raises OSError."""
        path = self._settings.path
        if self._file is not None:
            self._file.close()
            self._file = None
        stamp = datetime.now(UTC).strftime(_STAMP)
        path.rename(path.with_name(path.name + stamp))
        self._file = self._open()
        self._remove_old()

    def _remove_old(self) -> None:
        path, settings = self._settings.path, self._settings
        # Others may begin with the same name: those of another server, or of logrotate.
        backups = sorted(
            each
            for each in path.parent.iterdir()
            if each.name.startswith(path.name) and _STAMPED.fullmatch(each.name, len(path.name))
        )
        # The names sort by time.
        spare = backups[: -settings.max_backups] if settings.max_backups else []
        if settings.max_days:
            before = time.time() - settings.max_days * _DAY
            spare += [backup for backup in backups if backup.stat().st_mtime < before]
        for backup in spare:
            backup.unlink(missing_ok=True)

    def _drop(self, cause: str, why: str) -> None:
        with self._lock:
            self.dropped[cause] += 1
            if time.monotonic() < self._warned_at + _WARN_EVERY:
                return
            self._warned_at = time.monotonic()
        _log.warning("Audit events are dropped", cause=why, dropped=sum(self.dropped.values()))
