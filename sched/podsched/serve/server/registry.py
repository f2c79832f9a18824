"""Reads, updates, patches and deletes objects of any kind, for gRPC and REST alike.

Guarantees: an object is stored complete and valid, or not at all. A read sees every write that was
completed before it through any server. Each item of a batch has its own outcome.

Other modules create objects (``creation``), handle the subresources of pods (``pods``) and
translate from and to gRPC (``service``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podsched.api.conditions import is_terminating
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import Kind, kind_of
from podsched.api.objects import AnyObject, Namespace, copy_of
from podsched.api.reasons import StatusCode
from podsched.serve.server import errors
from podsched.serve.server.access.object_checks import check_change, check_own, check_status
from podsched.serve.server.access.rights import rights
from podsched.serve.server.admission import (
    admit_status,
    admit_update,
    check_deletable,
    copy_field,
    encoded,
    local_namespace,
)
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.bind_guard import BindGuard
from podsched.serve.server.deletion import (
    can_be_removed,
    check_preconditions,
    check_propagation,
    deletion_step,
    marked_first,
)
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.turns import Work
from podsched.serve.server.listing import Lister
from podsched.serve.server.namespaces import NAMESPACE, Namespaces, namespace_deletion_step
from podsched.serve.server.patching import parse_patch, patched
from podsched.serve.server.quotas.growth import GrowthCharging
from podsched.serve.server.scope import Scope, kind_named
from podsched.serve.server.storage import (
    Guarded,
    Mutation,
    ObjectStorage,
    Outcome,
    Step,
    only_entry,
)
from podsched.v1.api_pb2 import (
    DeleteCollectionRequest,
    DeleteRequest,
    Fence,
    PatchRequest,
    Preconditions,
)

#: Objects of a collection that are checked without a pause, and deleted in one call of the storage.
_DELETE_AT_ONCE = 500
#: Max characters of a name: a DNS subdomain.
_MAX_NAME = 253


class Registry:
    """Gets, updates, patches and deletes objects."""

    def __init__(
        self,
        storage: ObjectStorage,
        lister: Lister,
        sources: AdmissionSources,
        guard: BindGuard,
        namespaces: Namespaces,
        growth: GrowthCharging,
        guarded: Guarded,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._storage = storage
        self._lister = lister
        self._sources = sources
        self._guard = guard
        self._namespaces = namespaces
        self._growth = growth
        self._guarded = guarded
        self._now = now

    # ------------------------------------------------------------------ reading

    async def get(self, kind_name: str, namespace: str, name: str) -> Entry:
        """Return the current object. Raises ApiError."""
        entry = await self.get_raw(kind_name, namespace, name)
        if not entry.is_readable():
            raise errors.unreadable(entry.kind, name)
        return entry

    async def get_raw(self, kind_name: str, namespace: str, name: str) -> Entry:
        """Return the current object, even if it cannot be decoded. Raises ApiError."""
        kind, key = _address(kind_name, namespace, name)
        own = rights()
        own.check("get", kind, local_namespace(kind, namespace), name)
        entry = await self._storage.get(kind, key)
        if own.node is not None and kind.name in ("Node", "Pod"):
            own.node.check_read(kind, entry.message)
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
        kind, key = _address(kind_of(message).name, metadata.namespace, metadata.name)
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

        mutation = Mutation(kind, key, change)
        if not status:
            (mutation,) = await self._growth.charged([mutation])
        entry = only_entry(await self._write([mutation], fence, dry_run=dry_run))
        await self._settle([entry], dry_run=dry_run)
        return entry

    async def _write(
        self, mutations: Sequence[Mutation], fence: Fence | None, *, dry_run: bool
    ) -> list[Outcome]:
        """Write changes of objects, with the keys of what claims and Services have."""
        guarded = [self._guarded(mutation, fence) for mutation in mutations]
        return await self._storage.mutate(guarded, fence, dry_run=dry_run)

    async def _settle(self, outcomes: Sequence[Outcome], *, dry_run: bool) -> None:
        """Wait until admission sees the written objects; return at once after a dry run.

        So a client that has created a PriorityClass or LimitRange can use it in its next call.
        """
        if not dry_run:
            await self._sources.settle(outcomes)

    def _update_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        old = entry.message
        admit_update(kind, message, old, now=self._now(), sources=self._sources)
        check_change(kind, old, message)
        if can_be_removed(message):
            return Step(None)
        return None if message == old else Step(encoded(kind, message))

    def _status_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        updated = self._admitted_status(kind, message, entry.message, "update")
        check_change(kind, entry.message, updated)
        return None if updated == entry.message else Step(encoded(kind, updated))

    def _admitted_status(
        self, kind: Kind, message: AnyObject, old: AnyObject, verb: str
    ) -> AnyObject:
        updated = admit_status(kind, message, old, now=self._now(), sources=self._sources)
        check_status(kind, old, updated, verb)
        return updated

    async def patch(
        self, requests: Sequence[PatchRequest], fence: Fence | None, *, dry_run: bool = False
    ) -> list[Outcome]:
        """Patch objects, each independently."""
        planned = [errors.attempted(self._patch_mutation, request) for request in requests]
        mutations = [plan for plan in planned if isinstance(plan, Mutation)]
        charged = iter(await self._growth.charged(mutations))
        planned = [next(charged) if isinstance(plan, Mutation) else plan for plan in planned]
        return await self._mutate(planned, fence, dry_run=dry_run)

    def _patch_mutation(self, request: PatchRequest) -> Mutation:
        """Return the mutation for a patch. Raises ApiError if it is invalid or not permitted."""
        kind, key = _address(request.kind, request.namespace, request.name)
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
            if can_be_removed(message):
                return Step(None)
            return None if message == old else Step(encoded(kind, message))

        return Mutation(kind, key, change)

    # ------------------------------------------------------------------ deleting

    async def delete(self, request: DeleteRequest, fence: Fence | None = None) -> Entry:
        """Delete an object, or mark it if it has a grace period or finalizers. Raises ApiError."""
        outcomes = await self.delete_many([request], fence, dry_run=request.dry_run)
        entry = only_entry(outcomes)
        return entry if entry.is_readable() else entry.name_only()

    async def delete_many(
        self,
        requests: Sequence[DeleteRequest],
        fence: Fence | None = None,
        *,
        dry_run: bool = False,
    ) -> list[Outcome]:
        """Delete objects, each independently."""
        planned: list[Mutation | ApiError] = []
        for request in requests:
            try:
                planned.append(await self._deletion(request))
            except ApiError as error:
                planned.append(error)
        return await self._mutate(planned, fence, dry_run=dry_run)

    async def _mutate(
        self, planned: Sequence[Mutation | ApiError], fence: Fence | None, *, dry_run: bool
    ) -> list[Outcome]:
        """Execute the mutations; an error in place of a mutation becomes the item's outcome."""
        guarded = [
            self._guarded(plan, fence) if isinstance(plan, Mutation) else plan for plan in planned
        ]
        outcomes = await self._storage.mutate_planned(guarded, fence, dry_run=dry_run)
        await self._settle(outcomes, dry_run=dry_run)
        return outcomes

    async def delete_in_two_steps(
        self, request: DeleteRequest, *, dry_run: bool = False, permitted: bool = False
    ) -> Entry:
        """Delete an object as Kubernetes' REST API does: a pod is marked first and then removed.

        So watches show a MODIFIED event with a deletionTimestamp before the DELETED event.
        A terminating namespace is not changed; its ``finalize`` subresource removes it.

        permitted: the caller's right is already checked. Raises ApiError.
        """
        deletion = await self._deletion(request, permitted=permitted)

        def change(entry: Entry) -> Step | None:
            if isinstance(entry.message, Namespace) and is_terminating(entry.message):
                return None
            step = deletion.change(entry)
            return marked_first(entry, step, self._now(), request.propagation_policy)

        marking = deletion._replace(change=change)
        entry = only_entry(await self._write([marking], None, dry_run=dry_run))
        if dry_run:
            return entry
        if entry.kind.name == "Pod" and entry.is_readable() and can_be_removed(entry.message):
            entry = await self._remove_marked(entry)
        await self._sources.settle([entry])
        return entry if entry.is_readable() else entry.name_only()

    async def _remove_marked(self, entry: Entry) -> Entry:
        """Remove a marked pod, if it still exists; return it with the revision of its removal."""
        request = DeleteRequest(grace_period_seconds=0)

        def change(found: Entry) -> Step | None:
            same = found.message.metadata.uid == entry.message.metadata.uid
            return self._removal(found, request) if same and can_be_removed(found.message) else None

        try:
            removed = await self._storage.mutate_one(Mutation(entry.kind, entry.key, change), None)
        except ApiError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            return entry
        return entry.changed(entry.value, removed.revision)

    async def _deletion(self, request: DeleteRequest, *, permitted: bool = False) -> Mutation:
        """Return the mutation for a deletion. Raises ApiError if it is invalid or not permitted."""
        kind, key = _address(request.kind, request.namespace, request.name)
        namespace = local_namespace(kind, request.namespace)
        if not permitted:
            rights().check("delete", kind, namespace, request.name)
        check_deletable(kind, request.name)
        check_propagation(request.propagation_policy)
        emptied = kind is NAMESPACE and await self._namespaces.is_emptied(request.name)

        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            return self._removal(entry, request, emptied=emptied)

        return Mutation(kind, key, change)

    async def selected(self, request: DeleteCollectionRequest) -> list[Entry]:
        """Return the current objects that a deletecollection request selects. Raises ApiError."""
        kind = kind_named(request.kind)
        rights().check("deletecollection", kind, request.namespace)
        check_propagation(request.propagation_policy)
        scope = Scope(
            [kind.name], request.namespace, request.label_selector, request.field_selector
        )
        return await self._lister.all(scope)

    async def delete_collection(
        self, request: DeleteCollectionRequest, fence: Fence | None = None
    ) -> int:
        """Delete all objects that match now; return their number. Raises ApiError."""
        kind = kind_named(request.kind)
        selected = await self.selected(request)
        # Check all before deleting any: a refusal must not leave half of the collection deleted.
        work = Work()
        async for part in work.in_parts(selected, _DELETE_AT_ONCE):
            for entry in part:
                check_deletable(kind, entry.key)
        work.end()
        deleted = 0
        for start in range(0, len(selected), _DELETE_AT_ONCE):
            mutations = [
                Mutation(kind, entry.key, lambda found: self._removal(found, request))
                for entry in selected[start : start + _DELETE_AT_ONCE]
            ]
            outcomes = await self._write(mutations, fence, dry_run=request.dry_run)
            for outcome in outcomes:
                if not isinstance(outcome, ApiError):
                    deleted += 1
                # NOT_FOUND: deleted by another client since it was listed.
                elif outcome.code is not StatusCode.NOT_FOUND:
                    raise outcome
        return deleted

    def _removal(
        self,
        entry: Entry,
        request: DeleteRequest | DeleteCollectionRequest,
        *,
        emptied: bool = False,
    ) -> Step | None:
        """Return the step that removes or marks an object; emptied: it is an empty namespace."""
        check_own(entry)
        if entry.kind is NAMESPACE and entry.is_readable():
            return namespace_deletion_step(entry, self._now(), emptied=emptied)
        asked = request.grace_period_seconds if request.HasField("grace_period_seconds") else None
        step = deletion_step(entry, asked, self._now(), request.propagation_policy)
        if step is not None and step.value is None and entry.kind.name == "Node":
            return step._replace(ops=self._guard.removals_of_node(entry.key))
        return step


def _address(kind_name: str, namespace: str, name: str) -> tuple[Kind, str]:
    """Return the kind and local key of the object in a request. Raises ApiError."""
    kind = kind_named(kind_name)
    if not name:
        raise errors.bad_request("name must be specified", "name")
    for field, value in (("name", name), ("namespace", namespace)):
        if len(value) > _MAX_NAME:
            # No object has such a name, and a long one would be copied into keys and messages.
            raise errors.bad_request(f"{field} must be no more than {_MAX_NAME} characters", field)
    return kind, local_key(kind, local_namespace(kind, namespace), name)


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
