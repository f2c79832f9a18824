"""The file of a recording: gzip, one JSON document a line.

======================================  ============================================================
line                                    what it says
======================================  ============================================================
``{"recording": 1, "time": ..., ...}``  the first: the format's version, Unix time of the start
``{"object": {...}}``                   an object as of the start
``{"synced": REVISION}``                the objects above are all there were at this revision
``{"t": ..., "r": ..., "e": ...}``      a change: seconds since the start, revision, "A", "M" or "D"
                                        with the object, of deletions only kind and metadata
``{"t": ..., "decision": {...}}``       a decision of the leader
``{"t": ..., "checkpoint": {...}}``     what the leader knows that objects do not tell
``{"t": ..., "end": ...}``              the last: why the recording ended
======================================  ============================================================

A file without its tail, because the writer was killed, is read up to there; one that was changed is
refused. Fields that may contain secrets and that no decision reads (environment, commands, probes)
are not written.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from podsched.api.kinds import GATED_KINDS, KINDS, UnknownKindError, find_kind, kind_of
from podsched.api.manifest import ManifestError, from_manifest, to_manifest
from podsched.api.objects import AnyObject, Pod, object_key
from podsched.api.private_fields import without_private_fields
from podsched.lib.bounded_text import SizeExceeded, bounded_lines, parse_json
from podsched.lib.files import open_file
from podsched.serve.client.informer import EventType

VERSION: Final = 1
#: Limits of what is read: bytes of a line and of all lines, uncompressed; lines; values of a line.
MAX_LINE = 8 << 20
MAX_BYTES = 8 << 30
MAX_LINES = 10_000_000
MOST_VALUES_OF_A_LINE = 1_000_000
#: Seconds that are replayed at most: the public traces have up to 30 days.
MAX_SECONDS: Final = 40 * 86400.0
#: The end of the year 9999, and etcd's largest revision.
_MAX_TIME, _MAX_REVISION = 253_402_300_799.0, 2.0**63

_LETTERS = {EventType.ADDED: "A", EventType.MODIFIED: "M", EventType.DELETED: "D"}
_TYPES = {letter: type_ for type_, letter in _LETTERS.items()}
#: The numbers of a checkpoint.
_COUNTS = {"term", "begun_after", "number", "revision", "beyond", "rotation", "draws", "seed"}
_NOT_ONE = "not a recording (sched record makes them)"


class BadRecording(ValueError):
    """A file that is not a recording, or is broken in the middle."""


class Change(NamedTuple):
    """One change of one object; ``at``: seconds since the start of the recording.

    ``item`` is the object after the change; for a deletion, it has only metadata.
    """

    at: float
    type: EventType
    kind: str
    key: str
    item: AnyObject
    revision: int = 0


@dataclass(slots=True)
class Recording:
    """The contents of a file; ``ended`` says why it ends, "" if its tail is missing."""

    header: Mapping[str, Any]
    objects: list[AnyObject] = field(default_factory=list)
    revision: int = 0
    changes: list[Change] = field(default_factory=list)
    decisions: list[Mapping[str, Any]] = field(default_factory=list)
    checkpoints: list[Mapping[str, Any]] = field(default_factory=list)
    ended: str = ""
    seconds: float = 0.0
    #: Everything up to it is there.
    last_revision: int = 0

    @property
    def began(self) -> float:
        """Unix time of the start."""
        return float(self.header["time"])

    def known_to(self, checkpoint: Mapping[str, Any]) -> Recording:
        """Return it without objects of gated kinds that the leader of a checkpoint did not follow.

        An empty checkpoint is one of a leader that followed none.
        """
        followed = checkpoint.get("gated_kinds", [])
        unknown = {kind for kind in GATED_KINDS if kind not in followed}
        objects = [item for item in self.objects if kind_of(item).name not in unknown]
        changes = [change for change in self.changes if change.kind not in unknown]
        return replace(self, objects=objects, changes=changes)


class RecordingWriter:
    """Writes a recording; the file is readable even if the writer is killed."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        """Create the file. Raises FileExistsError, or another OSError."""
        # Names of pods and images may be confidential.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._raw = os.fdopen(handle, "wb")
        # Not a GzipFile, which complains when it is freed without having been closed.
        self._gzip = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        #: Bytes of the file so far, as of the last ``flush``.
        self.size = 0
        self._write({"recording": VERSION, **header})

    def object(self, item: AnyObject) -> None:
        """Write an object as of the start."""
        self._write({"object": _recorded(item)})

    def synced(self, revision: int) -> None:
        """Write that all objects as of the start are written."""
        self._write({"synced": revision})

    def change(self, at: float, revision: int, type_: EventType, item: AnyObject) -> None:
        if type_ is EventType.DELETED:
            bare, known = type(item)(), item.metadata
            bare.metadata.name, bare.metadata.namespace = known.name, known.namespace
            bare.metadata.uid = known.uid
            item = bare
        line = {"t": round(at, 6), "r": revision, "e": _LETTERS[type_]}
        self._write({**line, "object": _recorded(item)})

    def note(self, at: float, what: str, document: Mapping[str, Any]) -> None:
        """Write a "decision" or a "checkpoint" of the leader."""
        self._write({"t": round(at, 6), what: document})

    def flush(self) -> None:
        """Make all that was written readable."""
        self._raw.write(self._gzip.flush(zlib.Z_SYNC_FLUSH))
        self._raw.flush()
        self.size = self._raw.tell()

    def close(self, at: float, why: str, revision: int = 0) -> None:
        """Write the end, with the last recorded revision."""
        self._write({"t": round(at, 6), "end": why, "r": revision})
        self._raw.write(self._gzip.flush())
        self.size = self._raw.tell()
        self._raw.close()

    def abandon(self) -> None:
        """Close the file as it is, without an end."""
        self._raw.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        self._raw.write(self._gzip.compress(text))


def _recorded(item: AnyObject) -> dict[str, Any]:
    """Return the manifest to write, without fields that may contain credentials."""
    plain = without_private_fields(item)
    plain.metadata.ClearField("managed_fields")
    return to_manifest(plain)


def read_recording(path: Path) -> Recording:
    """Read a recording. Raises BadRecording or OSError."""
    recording, number = None, 1
    with open_file(path) as raw, gzip.GzipFile(fileobj=raw) as file:
        try:
            for line in _lines(file):
                if recording is None:
                    recording = _begun(path, line)
                elif "recording" in line:
                    raise ValueError("another recording begins here")
                else:
                    _take(recording, line)
                number += 1
        except BadRecording:
            raise
        except (ValueError, ManifestError, UnknownKindError) as error:
            raise BadRecording(f"{path}: line {number}: {error}") from error
    if recording is None:
        raise BadRecording(f"{path}: {_NOT_ONE}")
    return recording


def _begun(path: Path, line: Mapping[str, Any]) -> Recording:
    """Return the recording that begins with a line. Raises BadRecording, or another ValueError."""
    if "recording" not in line:
        raise BadRecording(f"{path}: {_NOT_ONE}")
    if (version := line["recording"]) != VERSION:
        raise BadRecording(f"{path}: version {version!r} of the format; this is {VERSION}")
    _number(line, "time", _MAX_TIME)
    if "configuration" in line:
        _object(line, "configuration")
    return Recording(line)


def _lines(file: gzip.GzipFile) -> Iterator[dict[str, Any]]:
    """Yield the documents, one per line, up to the end or the missing tail. Raises ValueError."""
    lines = bounded_lines(file, MAX_LINE, MAX_BYTES)
    for number in itertools.count(1):
        try:
            raw = next(lines, b"")
        except EOFError:
            return
        except (zlib.error, gzip.BadGzipFile) as error:
            if number == 1 and isinstance(error, gzip.BadGzipFile):
                return
            # What came before is not checked: a changed byte may leave valid JSON.
            raise ValueError(f"the file is damaged: {error}") from error
        if not raw.endswith(b"\n"):
            return
        if number > MAX_LINES:
            raise SizeExceeded(f"more than {MAX_LINES:,} lines")
        document = parse_json(raw, MOST_VALUES_OF_A_LINE)
        if not isinstance(document, dict):
            raise ValueError("expected an object")
        yield document


def _take(recording: Recording, line: Mapping[str, Any]) -> None:
    at = _number(line, "t", MAX_SECONDS) if "t" in line else 0.0
    recording.seconds = max(recording.seconds, at)
    if "e" in line:
        document = _object(line, "object")
        item = _item(document)
        kind = find_kind(document["kind"]).name
        type_ = _TYPES.get(line["e"]) if isinstance(line["e"], str) else None
        if type_ is None:
            raise ValueError(f"e: {_shown(line['e'])} is none of {', '.join(_TYPES)}")
        revision = _revision(line, "r")
        if revision < recording.last_revision:
            raise ValueError(f"r: {revision} comes after {recording.last_revision}")
        recording.last_revision = revision
        recording.changes.append(Change(at, type_, kind, object_key(item), item, revision))
    elif "object" in line:
        recording.objects.append(_item(_object(line, "object")))
    elif "synced" in line:
        recording.revision = recording.last_revision = _revision(line, "synced")
    elif "decision" in line:
        recording.decisions.append(_object(line, "decision"))
    elif "checkpoint" in line:
        recording.checkpoints.append(_checkpoint(line))
    elif "end" in line:
        recording.ended = str(line["end"])
        if "r" in line:
            recording.last_revision = max(recording.last_revision, _revision(line, "r"))


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _number(line: Mapping[str, Any], name: str, most: float) -> float:
    """Return a number of at least 0. Raises ValueError."""
    value = line.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: {_shown(value)} is not a number")
    if not 0 <= value <= most:
        raise ValueError(f"{name}: {_shown(value)} is not between 0 and {most:.0f}")
    return float(value)


def _checkpoint(line: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a checkpoint whose numbers are numbers. Raises ValueError."""
    found = _object(line, "checkpoint")
    if "configuration" in found:
        _object(found, "configuration")
    for name in _COUNTS & found.keys():
        if not isinstance(found[name], int):
            raise ValueError(f"checkpoint: {name}: {_shown(found[name])} is not a number")
    if not isinstance(found.get("gated_kinds", []), list):
        raise ValueError(f"checkpoint: gated_kinds: {_shown(found['gated_kinds'])} is not a list")
    return found


def _revision(line: Mapping[str, Any], name: str) -> int:
    _number(line, name, _MAX_REVISION)
    revision = line[name]
    if not isinstance(revision, int):
        raise ValueError(f"{name}: {_shown(revision)} is not a number of a revision")
    return revision


def _object(line: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    if name not in line:
        raise ValueError(f"{name} is missing")
    value = line[name]
    if not isinstance(value, dict):
        raise ValueError(f"{name}: {_shown(value)} is not an object")
    return value


def _item(document: Mapping[str, Any]) -> AnyObject:
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not known")
    found = from_manifest(document).message
    if not found.metadata.uid and isinstance(found, Pod):
        # A replay follows each pod by its uid.
        raise ValueError(f"metadata.uid: pod {object_key(found)} has none; every recorded pod does")
    return found
