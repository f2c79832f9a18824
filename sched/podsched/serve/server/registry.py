"""Reads, updates and patches objects of any kind, for gRPC and REST alike.

Guarantees: an object is stored complete and valid, or not at all. A read sees every write that was
completed before it through any server. Each item of a batch has its own outcome.

Other modules create objects (``creation``), delete them (``deleter``), handle the subresources of
pods (``pods``) and translate from and to gRPC (``service``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podsched.api.kinds import Kind, kind_of
from podsched.api.objects import AnyObject, copy_field, copy_of
from podsched.serve.server import errors
from podsched.serve.server.access.object_checks import check_change, check_status
from podsched.serve.server.access.rights import rights, scope_of
from podsched.serve.server.admission import admit_status, admit_update, encoded
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.deletion import check_preconditions, replacement
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.turns import in_turns
from podsched.serve.server.mutations import Mutation, Outcome, Step, only_entry
from podsched.serve.server.patching import parse_patch, patched
from podsched.serve.server.quotas.growth import GrowthCharging
from podsched.serve.server.scope import address_of, local_namespace
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.writes import GuardedWrites
from podsched.v1.api_pb2 import Fence, PatchRequest, Preconditions


class Registry:
    """Gets, updates and patches objects."""

    def __init__(
        self,
        storage: ObjectStorage,
        sources: AdmissionSources,
        growth: GrowthCharging,
        writes: GuardedWrites,
        *,
        now: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._sources = sources
        self._growth = growth
        self._writes = writes
        self._now = now

    # ------------------------------------------------------------------ reading

    async def get(self, kind_name: str, namespace: str, name: str, subresource: str = "") -> Entry:
        """Return the current object. Raises ApiError.

        subresource: the one that is asked for; the right to it is enough.
        """
        entry = await self.get_raw(kind_name, namespace, name, subresource)
        if not entry.is_readable():
            raise errors.unreadable(entry.kind, name)
        return entry

    async def get_raw(
        self, kind_name: str, namespace: str, name: str, subresource: str = ""
    ) -> Entry:
        """Return the current object, as ``get``, even if it cannot be decoded."""
        kind, key = address_of(kind_name, namespace, name)
        own, part = rights(), f"{kind.plural}/{subresource}"
        within = scope_of("get", kind, local_namespace(kind, namespace), name)
        if not (subresource and own.permit("get", kind.group, part, within, name)):
            own.check("get", kind, within, name)
        entry = await self._storage.get(kind, key)
        if own.node is not None:
            own.node.check_read(kind, entry.message, own.refers_to)
        return entry

    # ------------------------------------------------------------------ changing

    async def update(
        self,
        message: AnyObject,
        fence: Fence | None = None,
        *,
        status: bool = False,
        dry_run: bool = False,
    ) -> Entry:
        """Replace an object except its status, or only the status. Raises ApiError."""
        step = self._status_step if status else self._update_step
        metadata = message.metadata
        kind, key = address_of(kind_of(message).name, metadata.namespace, metadata.name)
        namespace = local_namespace(kind, metadata.namespace)
        rights().check("update", kind, namespace, metadata.name, "status" if status else "")
        wanted = _wanted_revision(metadata.resource_version)
        uid = metadata.uid

        def change(entry: Entry) -> Step | None:
            if wanted and wanted != entry.revision:
                raise errors.conflict(kind, metadata.name)
            check_preconditions(entry, Preconditions(uid=uid))
            # A step changes its message in place, and may be computed again for a newer version.
            return step(kind, copy_of(message), entry)

        planned: Sequence[Mutation | ApiError] = [Mutation(kind, key, change)]
        if not status:
            planned = await self._growth.charged(planned)
        return only_entry(await self._writes.change(planned, fence, dry_run=dry_run))

    def _update_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        old = entry.message
        admit_update(kind, message, old, now=self._now(), sources=self._sources)
        check_change(kind, old, message)
        return replacement(kind, message, old)

    def _status_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        updated = self._admitted_status(kind, message, entry.message, "update")
        return None if updated == entry.message else Step(encoded(kind, updated))

    def _admitted_status(
        self, kind: Kind, message: AnyObject, old: AnyObject, verb: str
    ) -> AnyObject:
        updated = admit_status(kind, message, old, now=self._now(), sources=self._sources)
        check_status(kind, old, updated, verb)
        check_change(kind, old, updated)
        return updated

    async def patch(
        self, requests: Sequence[PatchRequest], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Patch objects, each independently."""
        planned = [
            errors.attempted(self._patch_mutation, request)
            async for part in in_turns(requests, 1)  # each may be a megabyte of JSON
            for request in part
        ]
        charged = await self._growth.charged(planned)
        return await self._writes.change(charged, fence, dry_run=dry_run)

    def _patch_mutation(self, request: PatchRequest) -> Mutation:
        """Return the mutation for a patch. Raises ApiError if it is invalid or not permitted."""
        kind, key = address_of(request.kind, request.namespace, request.name)
        patch = parse_patch(request)
        wanted = Preconditions(uid=request.uid)
        wanted_status = "status" in patch
        namespace, parts = local_namespace(kind, request.namespace), _patched(patch)
        for subresource in parts:
            rights().check("patch", kind, namespace, request.name, subresource)

        def change(entry: Entry) -> Step | None:
            if request.resource_version and request.resource_version != entry.revision:
                raise errors.conflict(kind, request.name)
            check_preconditions(entry, wanted)
            old = entry.message
            message = patched(old, patch, request.type)
            _check_identity(kind, message, old)
            named = _wanted_revision(message.metadata.resource_version)
            if named and named != entry.revision:
                raise errors.conflict(kind, request.name)
            # Before ``admit_update``, which resets the status to the stored one.
            with_status = (
                self._admitted_status(kind, message, old, "patch") if wanted_status else None
            )
            if with_status is not None and parts == ["status"]:
                # The rest stays as it is stored, and was validated when it was written. To validate
                # it again made up a third of the server's work.
                message = with_status
            else:
                admit_update(kind, message, old, now=self._now(), sources=self._sources)
                check_change(kind, old, message)
                if with_status is not None:
                    copy_field(message, with_status, "status")
            return replacement(kind, message, old)

        return Mutation(kind, key, change)


def _patched(patch: Mapping[str, Any]) -> list[str]:
    """Return the subresources that a patch writes: "status", "" for anything else, or both."""
    status = ["status"] if "status" in patch else []
    return [*status, ""] if len(patch) > len(status) or not status else status


def _wanted_revision(text: str) -> int:
    """Return the revision in a resourceVersion, 0 without one. Raises ApiError."""
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(
            f'Invalid value: "{text}": must be a number', "metadata.resourceVersion"
        ) from None


def _check_identity(kind: Kind, message: AnyObject, old: AnyObject) -> None:
    """Raise ApiError for a patch that renames the object."""
    new, before = message.metadata, old.metadata
    if (new.name, new.namespace) != (before.name, before.namespace):
        violation = errors.Violation("metadata.name", "field is immutable", "Invalid value")
        raise errors.invalid(kind, before.name, [violation])
