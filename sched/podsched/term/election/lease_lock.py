"""The lock as a Lease of a Kubernetes cluster: client-go's ``LeaseLock``.

Guarantee: every write replaces the Lease that was read, at its resourceVersion; if it has changed,
the API server refuses the write (409). kube-scheduler can compete for the same Lease: the fields
are client-go's, and podsched's addition is an annotation.

resourceVersions are opaque strings. Revisions are numbers of this process, in the order of answers.
Reads and writes run one after another, so this is also the order of the states that they saw. The
term is the revision of the acquisition. Nothing in Kubernetes compares it (see docs/kubernetes.md),
but Ray actors follow only a leader with a higher term than the last one. So revisions are the
milliseconds of the wall clock, of which each process has its own; if it lags behind the last
leader's, nodes are evaluated without actors.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import orjson

from podsched.api.kinds import KINDS
from podsched.api.objects import Lease
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.serve.client.errors import (
    AlreadyExists,
    ClientError,
    Conflict,
    Forbidden,
    NotFound,
    Unreadable,
)
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.objects import UnreadableObjectError, read_object
from podsched.serve.kube.paths import collection, of_object
from podsched.serve.kube.writes import micro_time
from podsched.serve.store.errors import StoreError, Unavailable
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import Stored, stamped
from podsched.term.election.events import TryAcquire, Write
from podsched.term.election.record import (
    ADDRESS_ANNOTATION,
    NO_REVISION,
    NO_TERM,
    LeaderElectionRecord,
    Snapshot,
    decode_lease,
)

_log = get_logger("election")

_LEASE: Final = KINDS["Lease"]
#: Number of recent versions of the Lease that a write may name.
_REMEMBERED = 16
#: Seconds before a forbidden watch is tried again; the record is polled anyway.
_NOT_PERMITTED_FOR = 60.0
_PAUSE = 0.5


def request_timeout(settings: LeaderElectionSettings) -> float:
    """Return the seconds for a request, as in client-go: a renewal can be tried twice."""
    return max(1.0, settings.renew_deadline / 2)


class LeaseLock:
    """An ``ElectionLock``; the caller closes ``http``."""

    def __init__(
        self,
        http: KubeHttp,
        settings: LeaderElectionSettings,
        *,
        follows_holder: bool,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``follows_holder``: whether the holder's address is used, to take over early."""
        self._http = http
        self._name, self._namespace = settings.resource_name, settings.resource_namespace
        self._path = of_object(_LEASE, self._name, self._namespace)
        self._follows_holder = follows_holder
        self.timeout = request_timeout(settings)
        self._one_at_a_time = asyncio.Lock()
        #: The holder in the last answer or event, "" for none. It is known here before the elector
        #: has read it, so that a deposed leader stops sending writes at once: in a burst, 18 to 21
        #: bindings came after that, and 44 to 64 when the lease was read first.
        self.holder = ""
        self._noted = 0
        #: What the last refused write expected, and that if a read has since shown it unchanged.
        self._refused: Revision | None = None
        self._unchanged: Revision | None = None
        self._versions = _Versions(wall)

    async def read(self) -> Snapshot:
        async with self._one_at_a_time:
            try:
                lease = await self._asked("GET", self._path)
                found = self._snapshot(lease)
            except NotFound:
                found = Snapshot(revision=self._versions.next_revision())
            except ClientError as error:
                raise _translated(error) from error
            current = found.record_revision
            self._unchanged = current if current == self._refused else None
            return found

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[Snapshot | None]]]:
        return {"lease": self._changes}

    async def keep_alive(self) -> None:
        """Do nothing: a Lease has no liveness key."""

    async def revoke(self) -> None:
        """Do nothing."""

    # ------------------------------------------------------------------ reading

    def _snapshot(self, lease: dict[str, Any]) -> Snapshot:
        versions = self._versions
        revision = versions.next_revision()
        record = self._record(lease)
        self._note(lease)
        record_revision = versions.remember(lease, revision)
        term = NO_TERM
        if record is not None and record.holder_identity:
            term = versions.term_of(record, record_revision)
        return Snapshot(
            revision=revision, record=record, record_revision=record_revision, term=term
        )

    def _record(self, lease: dict[str, Any]) -> LeaderElectionRecord | None:
        try:
            message = read_object(_LEASE, lease)
            assert isinstance(message, Lease)
            record = decode_lease(message)
        except (UnreadableObjectError, ValueError, OverflowError) as error:
            # An unreadable record has no holder; a claim replaces it.
            _log.warning("Could not decode the lease", error=repr(error))
            return None
        return record if self._follows_holder else replace(record, address="")

    def _note(self, lease: Mapping[str, Any]) -> None:
        self._noted = _version(lease)
        self.holder = str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _note_event(self, line: bytes) -> str:
        """Note the holder in an event, unless an answer was newer.

        Return the version of the Lease, "" if it cannot be read or the Lease is deleted.

        Events may be older than this candidate's own acquisition. So resourceVersions are compared
        as numbers, which Kubernetes permits within a kind; the election itself does not need this.
        """
        try:
            event = orjson.loads(line)
            lease = event["object"]
            if _version(lease) > self._noted > 0:
                self._note(lease)
            deleted = event["type"] == "DELETED"
            return "" if deleted else str(lease["metadata"].get("resourceVersion", ""))
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
            return ""  # a read follows

    async def _changes(self) -> AsyncIterator[Snapshot | None]:
        """Yield when another has changed the Lease, if RBAC rules permit that."""
        params = {"watch": "1", "fieldSelector": f"metadata.name={self._name}"}
        path = collection(_LEASE, self._namespace)
        try:
            async with aclosing(self._http.lines(path, params)) as chunks:
                async for lines in chunks:
                    version = self._note_event(lines[-1])
                    # A read would wait, too. Then an own write is known; without this, each renewal
                    # would be followed by a read, and the next one would wait for it.
                    async with self._one_at_a_time:
                        known = self._versions.knows(version)
                    if not known:
                        yield None
            # The server ends watches from time to time, and at once while it is shutting down.
            await asyncio.sleep(_PAUSE)
        except Forbidden as error:
            _log.info("The lease may not be watched: it is polled", error=str(error))
            await asyncio.sleep(_NOT_PERMITTED_FOR)
        except ClientError as error:
            raise _translated(error) from error

    # ------------------------------------------------------------------ writing

    async def write(self, write: Write) -> Stored:
        """Replace the Lease that is expected, or create it if there is none."""
        expected, record = write.expected_revision, stamped(write)
        async with self._one_at_a_time:
            base = self._versions.known.get(expected)
            if base is None and expected != NO_REVISION:
                return None  # too old to be the current version
            try:
                lease = await self._replace(base, _lease(record, base))
            except (Conflict, AlreadyExists) as error:
                if expected == self._unchanged:
                    # The last refusal was no lost race, so this one is none, either.
                    raise _translated(error) from error
                self._refused = expected
                return None
            except ClientError as error:
                if base is not None and isinstance(error, NotFound):
                    return None
                # Of a new Lease, NotFound means that it has no namespace, which no read would show.
                raise _translated(error) from error
            revision = self._versions.remember(lease, self._versions.next_revision())
            self._note(lease)
            if isinstance(write, TryAcquire):
                self._versions.begin_term(record, revision)
            return revision, record

    async def _replace(self, base: dict[str, Any] | None, lease: dict[str, Any]) -> dict[str, Any]:
        if base is not None:
            return await self._asked("PUT", self._path, body=lease)
        lease["metadata"].update(name=self._name, namespace=self._namespace)
        return await self._asked("POST", collection(_LEASE, self._namespace), body=lease)

    async def _asked(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Return the Lease in the answer to a request. Raises ClientError, also if there is none.

        Something in between may answer for the API server.
        """
        lease = await self._http.request(method, path, **options)
        metadata, spec = lease.get("metadata"), lease.get("spec") or {}
        if not (isinstance(metadata, dict) and isinstance(spec, dict) and metadata.get("name")):
            raise Unreadable(f"the answer to {method} {path} is no Lease")
        return lease


class _Versions:
    """Revisions and terms of this process, for the versions of the Lease that it has seen."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        #: The recent Leases by revision.
        self.known: OrderedDict[Revision, dict[str, Any]] = OrderedDict()
        self._last = 0
        #: Holder, time and transitions of the last seen acquisition.
        self._acquisition: tuple[object, ...] = ()
        self._term = NO_TERM

    def knows(self, version: str) -> bool:
        """Return whether a Lease with this resourceVersion was remembered; "" never is."""
        known = (lease["metadata"].get("resourceVersion") for lease in self.known.values())
        return version != "" and version in known

    def next_revision(self) -> Revision:
        self._last = max(self._last + 1, int(self._wall() * 1000))
        return Revision(self._last)

    def remember(self, lease: dict[str, Any], revision: Revision) -> Revision:
        """Return the revision at which this version of the Lease was first seen."""
        version = lease["metadata"].get("resourceVersion")
        for known, content in self.known.items():
            if content["metadata"].get("resourceVersion") == version:
                return known
        self.known[revision] = lease
        if len(self.known) > _REMEMBERED:
            self.known.popitem(last=False)
        return revision

    def term_of(self, record: LeaderElectionRecord, revision: Revision) -> Term:
        """Return the term of a holder: a new term for each acquisition."""
        acquisition = (record.holder_identity, record.acquire_time, record.leader_transitions)
        if acquisition != self._acquisition:
            self._acquisition, self._term = acquisition, Term(revision)
        return self._term

    def begin_term(self, record: LeaderElectionRecord, revision: Revision) -> None:
        """Begin a new term, even if holder, time and transitions are those of the last one."""
        self._acquisition = ()
        self.term_of(record, revision)


def _lease(record: LeaderElectionRecord, base: dict[str, Any] | None) -> dict[str, Any]:
    """Return the Lease to store; other metadata of the replaced Lease is kept."""
    metadata = dict(base["metadata"]) if base is not None else {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(ADDRESS_ANNOTATION, None)
    if record.address:
        annotations[ADDRESS_ANNOTATION] = record.address
    metadata["annotations"] = annotations
    spec: dict[str, Any] = {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "leaseTransitions": record.leader_transitions,
    }
    # Only the API server's coordinator sets preferredHolder.
    if record.strategy:
        spec["strategy"] = record.strategy
    for name, at in (("acquireTime", record.acquire_time), ("renewTime", record.renew_time)):
        if at is not None:
            spec[name] = micro_time(at)
    return {
        "apiVersion": _LEASE.api_version,
        "kind": _LEASE.name,
        "metadata": metadata,
        "spec": spec,
    }


def _version(lease: Mapping[str, Any]) -> int:
    """Return the resourceVersion as a number, 0 if it is none."""
    version = str(lease["metadata"].get("resourceVersion", ""))
    return int(version) if version.isascii() and version.isdigit() else 0


def _translated(error: ClientError) -> StoreError:
    return Unavailable(f"the lease cannot be read or written: {error}")
