"""The lines of a history: what clients did, what etcd stored, what was broken.

A line is a JSON object with one key, which says what it is: ``{"call": {...}}``. Fields that have
their default are left out. Times (``at``, ``invoked``, ``answered``) are seconds since the run
began. Keys are etcd's, without the prefix that all have: ``pods/default/web-0``,
``terms/kube-system/kube-scheduler``.

Of the objects only what promises are about is kept, as facts: a history stays small enough to be
sent to somebody, and can be read.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError


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
    model_config = ConfigDict(frozen=True, extra="forbid")


class NodeTermFact(_Model):
    """A term of required node affinity; requirements are key, operator and values."""

    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    fields: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


class PodFact(_Model):
    """A pod. ``requests``: exact amounts by resource, as fractions ("1/10")."""

    node: str = ""
    nominated: str = ""
    priority: int = 0
    requests: dict[str, str] = {}
    ports: tuple[tuple[str, str, int], ...] = ()
    """Host ports: address, protocol, number."""
    claims: tuple[str, ...] = ()
    """Names of its persistent volume claims."""
    labels: dict[str, str] = {}
    selector: dict[str, str] = {}
    """Its spec.nodeSelector."""
    affinity: tuple[NodeTermFact, ...] | None = None
    """Its required node affinity; None: it has none."""
    tolerations: tuple[tuple[str, str, str, str], ...] = ()
    """Key, operator, value and effect."""
    gated: bool = False
    """Whether scheduling gates hold it back."""
    plain: bool = True
    """Nothing but requests, ports and node selector decides where it fits, and nothing holds it
    back: no scheduling gates, default scheduler."""
    ready: bool = False
    finished: bool = False
    deleting: bool = False
    disrupted: str = ""
    """The reason of its DisruptionTarget condition, if that is True."""


class NodeFact(_Model):
    """A node; ``open``: it takes pods without tolerations (Ready, no taint, schedulable)."""

    allocatable: dict[str, str] = {}
    labels: dict[str, str] = {}
    taints: tuple[tuple[str, str, str], ...] = ()
    """Key, value and effect of those that keep pods away; a node that is unschedulable has one."""
    open: bool = True


class ClaimFact(_Model):
    """A persistent volume claim; ``exclusive``: for one pod at a time (ReadWriteOncePod)."""

    exclusive: bool = False


class BudgetFact(_Model):
    """A disruption budget: what it selects, and the healthy pods that must be left."""

    match_labels: dict[str, str] = {}
    desired: int = 0
    allowed: int = 0
    disrupted: tuple[str, ...] = ()
    """Names of the pods whose evictions it has counted and not yet seen."""


class PreemptionFact(_Model):
    """The event of a preemption: uids of victim and preemptor."""

    victim: str
    preemptor: str


class Change(_Model):
    """A key after a revision. ``uid``: of the object; ``holder``: of a term key."""

    key: str
    deleted: bool = False
    uid: str = ""
    holder: str = ""
    pod: PodFact | None = None
    node: NodeFact | None = None
    claim: ClaimFact | None = None
    budget: BudgetFact | None = None
    preemption: PreemptionFact | None = None


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
    invoked: float
    answered: float
    outcome: Outcome
    revision: int = 0
    error: str = ""


class Revision(_Model):
    """All that one revision of etcd changed; ``at``: when the recorder saw it."""

    at: float
    number: int
    changes: tuple[Change, ...] = ()


class FencedWrite(_Model):
    """A call of a term, as an API server has noted it: what it was to write, and what it wrote.

    pods: "namespace/name" of the first ones. more: how many others it had. revisions: the pods'
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
    """A fault begins or ends; ``what`` says it in words: "SIGKILL scheduler-1"."""

    at: float
    number: int
    name: str
    what: str = ""
    ends: bool = False
    failed: str = ""
    """Why it could not be done; of its end: why it could not be undone."""


class Settled(_Model):
    """The system after the last fault, when nothing has changed for a while."""

    at: float
    assumed: dict[str, int] = {}
    """Pods that each replica takes to be bound and has not seen bound."""
    fence_losses: dict[str, int] = {}


class End(_Model):
    """The system after it was stopped: exit codes, what still runs, what logs complain about."""

    at: float
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
