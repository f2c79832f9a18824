"""The lock as a Lease of a Kubernetes cluster: client-go's ``LeaseLock``.

Guarantee: every write replaces the Lease that was read, at its resourceVersion; the API server
refuses it (409) when anybody has written since. A stock kube-scheduler can hold the same Lease:
fields are client-go's, and what podsched adds stands in an annotation.

resourceVersions are strings that mean nothing here. Revisions are numbers of this process, given
in the order in which answers come; reads and writes are made one after the other, so that this is
the order of what they saw. The term is the number of the acquisition: it tells this process's own
terms apart, and no other process knows it. Nothing in Kubernetes compares it (see
docs/kubernetes.md).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from podsched.api.kinds import KINDS
from podsched.api.objects import Lease
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.serve.client.errors import AlreadyExists, ClientError, Conflict, Forbidden, NotFound
from podsched.serve.kube.http import KubeHttp
from podsched.serve.kube.objects import UnreadableObjectError, read_object
from podsched.serve.kube.paths import collection, of_object
from podsched.serve.kube.writes import micro_time
from podsched.serve.store.errors import StoreError, Unavailable
from podsched.telemetry.logs import get_logger
from podsched.term.election.election_lock import Stored
from podsched.term.election.events import Release, Renew, TryAcquire
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
#: Versions of the Lease that a write may still name: those read lately.
_REMEMBERED = 16
#: Seconds after which a watch that is not permitted is tried again; the record is polled anyway.
_NOT_PERMITTED_FOR = 60.0
_PAUSE = 0.5


class LeaseLock:
    """An ``ElectionLock``; whoever made ``http`` closes it."""

    def __init__(
        self, http: KubeHttp, settings: LeaderElectionSettings, *, follows_holder: bool
    ) -> None:
        """``follows_holder``: whether a holder's address is heeded, to take over early."""
        self._http = http
        self._name, self._namespace = settings.resource_name, settings.resource_namespace
        self._follows_holder = follows_holder
        self._one_at_a_time = asyncio.Lock()
        self._last = 0
        #: Who holds the Lease by the last answer or event, "" for nobody: known here before the
        #: elector has read it, so that a leader that is deposed sends nothing more meanwhile.
        self.holder = ""
        self._noted = 0
        #: The Leases read or written lately, by revision.
        self._known: OrderedDict[Revision, dict[str, Any]] = OrderedDict()
        #: Who acquired when, of the last term seen.
        self._acquisition: tuple[object, ...] = ()
        self._term = NO_TERM

    async def read(self) -> Snapshot:
        """Return the Lease as it is."""
        async with self._one_at_a_time:
            try:
                lease = await self._request("GET", self._path)
            except NotFound:
                return Snapshot(revision=self._next())
            except ClientError as error:
                raise _translated(error) from error
            return self._snapshot(lease)

    async def acquire(self, effect: TryAcquire) -> Stored:
        """Create the Lease, or replace the one expected."""
        now = datetime.now(UTC)
        record = replace(effect.record, acquire_time=now, renew_time=now)
        return await self._write(effect.expected_revision, record, new_term=True)

    async def renew(self, effect: Renew) -> Stored:
        """Replace the Lease with a newer renewTime."""
        record = replace(effect.record, renew_time=datetime.now(UTC))
        return await self._write(effect.expected_revision, record)

    async def release(self, effect: Release) -> Stored:
        """Replace the Lease with one that nobody holds."""
        now = datetime.now(UTC)
        record = replace(effect.record, acquire_time=now, renew_time=now)
        return await self._write(effect.expected_revision, record)

    def watches(self) -> Mapping[str, Callable[[], AsyncIterator[None]]]:
        """Return the watch of the Lease."""
        return {"lease": self._changes}

    async def keep_alive(self) -> None:
        """Do nothing: a Lease knows no sign of life but its renewal."""

    async def revoke(self) -> None:
        """Do nothing: see ``keep_alive``."""

    # ------------------------------------------------------------------ reading

    @property
    def _path(self) -> str:
        return of_object(_LEASE, self._name, self._namespace)

    def _next(self) -> Revision:
        self._last += 1
        return Revision(self._last)

    def _snapshot(self, lease: dict[str, Any]) -> Snapshot:
        revision = self._next()
        record = self._record(lease)
        self._note(lease)
        record_revision = self._remember(lease, revision)
        if record is None or not record.holder_identity:
            return Snapshot(revision=revision, record=record, record_revision=record_revision)
        return Snapshot(
            revision=revision,
            record=record,
            record_revision=record_revision,
            term=self._term_of(record, record_revision),
        )

    def _record(self, lease: dict[str, Any]) -> LeaderElectionRecord | None:
        try:
            message = read_object(_LEASE, lease)
            assert isinstance(message, Lease)
            record = decode_lease(message)
        except (UnreadableObjectError, ValueError, OverflowError) as error:
            # Nobody can hold a lock by a record that cannot be read; claiming it repairs it.
            _log.warning("Could not decode the lease", error=repr(error))
            return None
        return record if self._follows_holder else replace(record, address="")

    def _remember(self, lease: dict[str, Any], revision: Revision) -> Revision:
        """Return the revision at which this version of the Lease was first seen."""
        version = lease["metadata"].get("resourceVersion")
        for known, content in self._known.items():
            if content["metadata"].get("resourceVersion") == version:
                return known
        self._known[revision] = lease
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return revision

    def _term_of(self, record: LeaderElectionRecord, revision: Revision) -> Term:
        """Return the term of a holder: a new one whenever it is another acquisition."""
        acquisition = (record.holder_identity, record.acquire_time, record.leader_transitions)
        if acquisition != self._acquisition:
            self._acquisition, self._term = acquisition, Term(revision)
        return self._term

    def _note(self, lease: Mapping[str, Any]) -> None:
        self._noted = _version(lease)
        self.holder = str((lease.get("spec") or {}).get("holderIdentity") or "")

    def _note_event(self, line: bytes) -> None:
        """Note who holds the Lease by an event, unless an answer has said something later.

        Events may be late: one of before this candidate's own acquisition is no news. Numbers are
        compared for that, which Kubernetes permits within a kind; the election itself does not.
        """
        try:
            lease = orjson.loads(line)["object"]
            if _version(lease) > self._noted > 0:
                self._note(lease)
        except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
            pass  # the read that follows tells

    async def _changes(self) -> AsyncIterator[None]:
        """Yield when the Lease has changed. RBAC of kube-scheduler alone does not permit it."""
        params = {"watch": "1", "fieldSelector": f"metadata.name={self._name}"}
        path = collection(_LEASE, self._namespace)
        try:
            async with aclosing(self._http.lines(path, params)) as chunks:
                async for lines in chunks:
                    self._note_event(lines[-1])
                    yield
            # The server ends each watch in the end, one that is going down at once.
            await asyncio.sleep(_PAUSE)
        except Forbidden as error:
            _log.info("The lease may not be watched: it is polled", error=str(error))
            await asyncio.sleep(_NOT_PERMITTED_FOR)
        except ClientError as error:
            raise _translated(error) from error

    # ------------------------------------------------------------------ writing

    async def _write(
        self, expected: Revision, record: LeaderElectionRecord, *, new_term: bool = False
    ) -> Stored:
        async with self._one_at_a_time:
            base = self._known.get(expected)
            if base is None and expected != NO_REVISION:
                return None  # so old that it cannot be the present one
            try:
                lease = await self._replace(base, _lease(record, base))
            except (Conflict, AlreadyExists, NotFound):
                return None
            except ClientError as error:
                raise _translated(error) from error
            revision = self._remember(lease, self._next())
            self._note(lease)
            if new_term:
                self._acquisition = ()
                self._term_of(record, revision)
            return revision, record

    async def _replace(self, base: dict[str, Any] | None, lease: dict[str, Any]) -> dict[str, Any]:
        if base is not None:
            return await self._request("PUT", self._path, lease)
        lease["metadata"].update(name=self._name, namespace=self._namespace)
        return await self._request("POST", collection(_LEASE, self._namespace), lease)

    async def _request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        return await self._http.request(method, path, body=body)


def _lease(record: LeaderElectionRecord, base: dict[str, Any] | None) -> dict[str, Any]:
    """Return the Lease to store; what else is in the one that it replaces is kept."""
    metadata = dict(base["metadata"]) if base is not None else {}
    annotations = dict(metadata.get("annotations") or {})
    annotations.pop(ADDRESS_ANNOTATION, None)
    if record.address:
        annotations[ADDRESS_ANNOTATION] = record.address
    metadata["annotations"] = annotations
    spec = dict((base or {}).get("spec") or {})
    spec.update(
        holderIdentity=record.holder_identity,
        leaseDurationSeconds=record.lease_duration_seconds,
        leaseTransitions=record.leader_transitions,
    )
    for name, time in (("acquireTime", record.acquire_time), ("renewTime", record.renew_time)):
        if time is not None:
            spec[name] = micro_time(time)
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
