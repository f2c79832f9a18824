"""Deletes objects of any kind, for gRPC and REST alike, by the rules of ``deletion``.

Each item of a batch has its own outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from podsched.api.conditions import is_terminating
from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server import errors
from podsched.serve.server.access.object_checks import check_own
from podsched.serve.server.access.rights import rights
from podsched.serve.server.admission import check_deletable
from podsched.serve.server.deletion import (
    can_be_removed,
    check_preconditions,
    check_propagation,
    deletion_step,
    marked_first,
)
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.turns import in_turns
from podsched.serve.server.listing import Lister
from podsched.serve.server.mutations import Mutation, Outcome, Step, only_entry
from podsched.serve.server.namespaces import NAMESPACE, Namespaces, namespace_deletion_step
from podsched.serve.server.scope import Scope, address_of, kind_named, local_namespace
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.writes import GuardedWrites
from podsched.v1.api_pb2 import DeleteCollectionRequest, DeleteRequest, Fence

#: Objects of a collection that are checked without a pause, and deleted in one call of the storage.
_DELETE_AT_ONCE = 500


class Deleter:
    """Deletes single objects, batches and collections."""

    def __init__(
        self,
        storage: ObjectStorage,
        lister: Lister,
        namespaces: Namespaces,
        writes: GuardedWrites,
        *,
        now: Callable[[], float],
    ) -> None:
        self._storage = storage
        self._lister = lister
        self._namespaces = namespaces
        self._writes = writes
        self._now = now

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
        planned = [await errors.awaited(self._permitted_deletion(each)) for each in requests]
        return await self._writes.change(planned, fence, dry_run=dry_run)

    async def delete_in_two_steps(self, request: DeleteRequest, *, dry_run: bool) -> Entry:
        """Delete an object as Kubernetes' REST API does: a pod is marked first and then removed.

        So watches show a MODIFIED event with a deletionTimestamp before the DELETED event.
        A terminating namespace is not changed; its ``finalize`` subresource removes it.

        The right to delete the object, or its collection, must have been checked. Raises ApiError.
        """
        deletion = await self._deletion(request)

        def change(entry: Entry) -> Step | None:
            is_namespace = entry.kind is NAMESPACE and entry.is_readable()
            if is_namespace and is_terminating(entry.message):
                check_preconditions(entry, request.preconditions)
                return None
            step = deletion.change(entry)
            return marked_first(entry, step, self._now(), request.propagation_policy)

        marking = deletion._replace(change=change)
        (outcome,) = await self._writes.change([marking], None, dry_run=dry_run)
        if isinstance(outcome, ApiError) and outcome.reason == StatusReason.STORE_FULL:
            # A full etcd stores no mark, but removes what has no grace period.
            (outcome,) = await self._writes.change([deletion], None, dry_run=dry_run)
        entry = only_entry([outcome])
        if dry_run:
            return entry
        if entry.kind.name == "Pod" and entry.is_readable() and can_be_removed(entry.message):
            entry = await self._remove_marked(entry)
        return entry if entry.is_readable() else entry.name_only()

    async def _remove_marked(self, entry: Entry) -> Entry:
        """Remove a marked pod, if it still exists; return it with the revision of its removal."""
        request = DeleteRequest(grace_period_seconds=0)

        def change(found: Entry) -> Step | None:
            # The pod may be gone since it was marked, and another one may have its name.
            same = found.message.metadata.uid == entry.message.metadata.uid
            return self._removal(found, request) if same and can_be_removed(found.message) else None

        try:
            removed = await self._storage.mutate_one(Mutation(entry.kind, entry.key, change), None)
        except ApiError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            return entry
        return entry.changed(entry.value, removed.revision)

    async def _permitted_deletion(self, request: DeleteRequest) -> Mutation:
        """Return the mutation for a deletion. Raises ApiError if it is invalid or not permitted."""
        kind, _ = address_of(request.kind, request.namespace, request.name)
        rights().check("delete", kind, local_namespace(kind, request.namespace), request.name)
        return await self._deletion(request)

    async def _deletion(self, request: DeleteRequest) -> Mutation:
        """Return the mutation for a deletion. Raises ApiError if it is invalid."""
        kind, key = address_of(request.kind, request.namespace, request.name)
        check_deletable(kind, request.name)
        check_propagation(request.propagation_policy)
        emptied = kind is NAMESPACE and await self._namespaces.is_emptied(request.name)

        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            return self._removal(entry, request, emptied=emptied)

        return Mutation(kind, key, change)

    async def delete_collection(
        self, request: DeleteCollectionRequest, fence: Fence | None = None
    ) -> int:
        """Delete all objects that match now; return their number. Raises ApiError."""
        kind = kind_named(request.kind)
        rights().check("deletecollection", kind, request.namespace)
        check_propagation(request.propagation_policy)
        scope = Scope(
            [kind.name], request.namespace, request.label_selector, request.field_selector
        )
        selected = await self._lister.all(scope)
        # Check all before deleting any: a refusal must not leave half of the collection deleted.
        async for part in in_turns(selected, _DELETE_AT_ONCE):
            for entry in part:
                check_deletable(kind, entry.key)
        deleted = 0
        for start in range(0, len(selected), _DELETE_AT_ONCE):
            mutations = [
                Mutation(kind, entry.key, lambda found: self._removal(found, request))
                for entry in selected[start : start + _DELETE_AT_ONCE]
            ]
            outcomes = await self._writes.change(mutations, fence, dry_run=request.dry_run)
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
        return deletion_step(entry, asked, self._now(), request.propagation_policy)
