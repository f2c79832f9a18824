"""The records of a history: calls of clients, revisions of etcd, and faults.

A line is a JSON object whose only key is the sort of record: ``{"call": {...}}``. Fields with their
default are left out. Times are seconds since the run began. Keys are etcd's, without the common
prefix: ``pods/default/web-0``, ``terms/kube-system/kube-scheduler``.

Only the parts of objects that promises concern are recorded, so that a history is small and
readable.
"""

from __future__ import annotations

import json
import reprlib
from enum import StrEnum
from typing import Annotated, Any, Final

from google.protobuf.message import Message
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from podsched.api.manifest import from_manifest, to_manifest


class HistoryError(Exception):
    """A history cannot be read; the message says where and why."""


class Outcome(StrEnum):
    """How a call ended for its client."""

    OK = "ok"
    FAILED = "failed"
    """It has not been done."""
    UNKNOWN = "unknown"
    """The answer was lost: it may have been done, or be done later."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


#: Since the run began, which lasts for a day at most. (Those of audit logs are of the wall clock.)
Seconds = Annotated[float, Field(ge=0, le=172_800)]


def _read(value: object) -> object:
    if isinstance(value, dict):
        return from_manifest(value).message
    if value is not None and not isinstance(value, Message):
        raise ValueError(f"{reprlib.repr(value)} is not an object")
    return value


Kept = Annotated[Any, BeforeValidator(_read), PlainSerializer(to_manifest)]
"""An object, as far as promises are about it; a manifest in the file."""


class Change(_Model):
    """A key after a revision. ``uid``: of the object; ``holder``: of a term key."""

    key: str
    deleted: bool = False
    uid: str = ""
    holder: str = ""
    object: Kept = None


class Begin(_Model):
    """The first line. ``within``: seconds after which a pod that fits must be bound."""

    version: int
    seed: int = 0
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    started: str = ""
    within: float = 30.0
    lock: str = "kube-system/kube-scheduler"


class Call(_Model):
    """One object of a client's call. ``revision``: the object's after it, if that was answered."""

    client: str
    verb: str
    """create, delete, evict or patch."""
    key: str
    uid: str = ""
    invoked: Seconds
    answered: Seconds
    outcome: Outcome
    revision: int = 0
    error: str = ""


class Revision(_Model):
    """All that one revision of etcd changed; ``at``: when the recorder saw it."""

    at: Seconds
    number: int
    changes: tuple[Change, ...] = ()


class FencedWrite(_Model):
    """A fenced call in an API server's audit log: the requested and the actual writes.

    pods: "namespace/name" of the first ones. more: the number of further ones. revisions: the pods'
    after it; empty if none was written, or if the caller did not wait for the answer (``unheard``).
    """

    at: float
    server: str
    method: str
    lock: str
    term: int
    pods: tuple[str, ...] = ()
    more: int = 0
    revisions: tuple[int, ...] = ()
    unheard: bool = False


class FaultMark(_Model):
    """The beginning or end of a fault; ``what`` describes it: "SIGKILL scheduler-1"."""

    at: Seconds
    number: int
    name: str
    what: str = ""
    ends: bool = False
    failed: str = ""
    """Why it could not be done; of its end: why it could not be undone."""


class Settled(_Model):
    """The system after the last fault, when nothing has changed for a while."""

    at: Seconds
    assumed: dict[str, int] = {}
    """Pods that each replica takes to be bound and has not seen bound."""
    fence_losses: dict[str, int] = {}


class End(_Model):
    """The end of the system: exit codes, remaining processes, and errors in logs."""

    at: Seconds
    exit_codes: dict[str, int] = {}
    processes: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()


Record = Begin | Call | Revision | FencedWrite | FaultMark | Settled | End

_KINDS: Final[dict[str, type[Record]]] = {
    "begin": Begin,
    "call": Call,
    "revision": Revision,
    "write": FencedWrite,
    "fault": FaultMark,
    "settled": Settled,
    "end": End,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def encode(record: Record) -> str:
    """Return a record's line, without the newline."""
    return f'{{"{_NAMES[type(record)]}":{record.model_dump_json(exclude_defaults=True)}}}'


def decode(line: str | bytes) -> Record:
    """Return the record of a line. Raises HistoryError."""
    try:
        found = json.loads(line)
    except ValueError as error:
        raise HistoryError(f"not JSON: {error}") from None
    except RecursionError:
        raise HistoryError("not JSON: nested too deeply") from None
    if not isinstance(found, dict) or len(found) != 1:
        raise HistoryError("not an object with one key")
    ((name, fields),) = found.items()
    if name not in _KINDS:
        raise HistoryError(f'unknown record "{name}"; known are {", ".join(_KINDS)}')
    try:
        return _KINDS[name].model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in (name, *first["loc"]))
        raise HistoryError(f"{path}: {first['msg']}") from None
