"""What a request about objects of any kind does: the API server without its transport.

Guarantees: an object is stored complete and valid or not at all; a reader sees every write
completed before it asked, whichever server did it; batches answer each item by itself. Namespaces
group names and need not exist; `default` and `kube-system` do from the start. Not here: gRPC
(`service`), the pod subresources (`pods`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from podsched.api.defaulting import generated_name
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS, Kind, kind_of
from podsched.api.objects import AnyObject, Namespace, Pod, PriorityClass
from podsched.api.priorities import PriorityClasses, system_priority_classes
from podsched.api.reasons import StatusCode, StatusReason
from podsched.server import errors
from podsched.server.admission import (
    admit_new,
    admit_status,
    admit_update,
    check_deletable,
    local_namespace,
    take_status,
)
from podsched.server.cache_reflector import Feed
from podsched.server.deletion import check_preconditions, deletion_step, is_over
from podsched.server.entries import Entry
from podsched.server.errors import ApiError
from podsched.server.expiry import EVENT, EventExpiry
from podsched.server.listing import Lister
from podsched.server.patching import parse_patch, patched
from podsched.server.scope import Scope, kind_named
from podsched.server.settings import ServerSettings
from podsched.server.storage import Mutation, New, ObjectStorage, Outcome, Step, raise_first
from podsched.server.watchcache import WatchCache
from podsched.store.errors import StoreError
from podsched.v1.api_pb2 import (
    DeleteCollectionRequest,
    DeleteRequest,
    Fence,
    PatchRequest,
    Preconditions,
)

_GENERATED_NAME_TRIES = 8
_DELETE_AT_ONCE = 500
#: As for DNS subdomains, the longest names that are valid.
_MAX_NAME = 253


class Registry:
    """Create, get, update, patch and delete."""

    def __init__(
        self,
        storage: ObjectStorage,
        cache: WatchCache,
        feed: Feed,
        lister: Lister,
        expiry: EventExpiry,
        settings: ServerSettings,
        *,
        now: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._storage = storage
        self._cache = cache
        self._feed = feed
        self._lister = lister
        self._expiry = expiry
        self._max_object_bytes = settings.max_object_bytes
        self._now = now
        self._new_uid = new_uid
        self._classes = PriorityClasses()
        self._classes_at = -1

    # ------------------------------------------------------------------ creating

    async def create(
        self, message: AnyObject, fence: Fence | None = None, *, dry_run: bool = False
    ) -> Entry:
        """Store a new object. Raises ApiError. A dry run goes as far as the store."""
        if dry_run:
            await self._know_classes([message])
            new = self._new(message, 0)
            return Entry(new.kind, new.key, new.value, 0, 0)
        return raise_first(await self.create_many([message], fence))

    async def create_many(
        self, messages: Sequence[AnyObject], fence: Fence | None = None
    ) -> list[Outcome]:
        """Store new objects, each by itself; the messages are completed in place."""
        await self._know_classes(messages)
        lease = await self._lease_for(messages)
        outcomes: list[Outcome | None] = [None] * len(messages)
        items: list[tuple[int, New]] = []
        for index, message in enumerate(messages):
            try:
                items.append((index, self._new(message, lease)))
            except ApiError as error:
                outcomes[index] = error
        items = self._making_room(items)
        for _ in range(_GENERATED_NAME_TRIES):
            results = await self._storage.create([item for _, item in items], fence)
            again: list[tuple[int, New]] = []
            for (index, item), result in zip(items, results, strict=True):
                outcomes[index] = result
                if isinstance(result, ApiError):
                    retry = await self._another(item, messages[index], result)
                    if retry is not None:
                        again.append((index, retry))
            items = again
            if not items:
                break
        return [outcome for outcome in outcomes if outcome is not None]

    def _new(self, message: AnyObject, lease: int) -> New:
        kind = kind_of(message)
        admit_new(
            kind, message, now=self._now(), uid=self._new_uid(), classes=self._priority_classes()
        )
        metadata = message.metadata
        value = self._encoded(kind, message)
        key = local_key(kind, metadata.namespace, metadata.name)
        return New(kind, key, value, lease if kind is EVENT else 0)

    async def _another(self, item: New, message: AnyObject, error: ApiError) -> New | None:
        """Return the item to be tried instead, where its generated name or shared lease was at fault."""
        if error.reason == StatusReason.LEASE_NOT_FOUND:
            self._expiry.forget_lease()
            try:
                return item._replace(lease=await self._expiry.lease())
            except StoreError:
                return None
        metadata = message.metadata
        if error.reason != StatusReason.ALREADY_EXISTS or not metadata.generate_name:
            return None
        if metadata.name != generated_name(metadata.generate_name, metadata.uid):
            return None  # the client chose the name itself
        metadata.uid = self._new_uid()
        metadata.name = generated_name(metadata.generate_name, metadata.uid)
        key = local_key(item.kind, metadata.namespace, metadata.name)
        return item._replace(key=key, value=message.SerializeToString())

    def _encoded(self, kind: Kind, message: AnyObject) -> bytes:
        value = message.SerializeToString()
        if len(value) > self._max_object_bytes:
            raise errors.too_large(
                f"{errors.named(kind, message.metadata.name)} is too large: {len(value)} bytes, "
                f"the limit is {self._max_object_bytes}"
            )
        return value

    async def _lease_for(self, messages: Sequence[AnyObject]) -> int:
        if not any(kind_of(message) is EVENT for message in messages):
            return 0
        try:
            return await self._expiry.lease()
        except StoreError as error:
            raise errors.of_store(error) from error

    def _making_room(self, items: list[tuple[int, New]]) -> list[tuple[int, New]]:
        """Return the items, new events with the removal of the oldest in the same write."""
        coming = sum(item.kind is EVENT for _, item in items)
        removals = self._expiry.make_room(coming) if coming else []
        if not removals:
            return items
        return [
            (i, item._replace(also=(removals.pop(),)) if item.kind is EVENT and removals else item)
            for i, item in items
        ]

    # ------------------------------------------------------------------ priority classes

    def _priority_classes(self) -> PriorityClasses:
        kind = KINDS["PriorityClass"]
        changed_at = self._cache.last_change(kind)
        if changed_at != self._classes_at:
            found = [entry.message for entry in self._cache.objects(kind).values()]
            self._classes = PriorityClasses([m for m in found if isinstance(m, PriorityClass)])
            self._classes_at = changed_at
        return self._classes

    async def _know_classes(self, messages: Sequence[AnyObject]) -> None:
        """Return a class created through another server a moment ago may not be in the cache yet."""
        known = self._priority_classes()
        for message in messages:
            name = message.spec.priority_class_name if isinstance(message, Pod) else ""
            if name and known.get(name) is None:
                try:
                    return await self._feed.fresh()
                except StoreError as error:
                    raise errors.of_store(error) from error
        return None

    # ------------------------------------------------------------------ reading

    async def get(self, kind_name: str, namespace: str, name: str) -> Entry:
        """Return the object as it is now. Raises ApiError."""
        kind, key = _address(kind_name, namespace, name)
        entry = await self._storage.get(kind, key)
        if not entry.is_readable():
            raise errors.unreadable(kind, name)
        return entry

    # ------------------------------------------------------------------ changing

    async def update(self, message: AnyObject, fence: Fence | None = None) -> Entry:
        """Replace an object except its status. Raises ApiError."""
        return await self._replace(message, fence, self._update_step)

    async def update_status(self, message: AnyObject, fence: Fence | None = None) -> Entry:
        """Replace the status alone. Raises ApiError."""
        return await self._replace(message, fence, self._status_step)

    async def _replace(
        self,
        message: AnyObject,
        fence: Fence | None,
        step: Callable[[Kind, AnyObject, Entry], Step | None],
    ) -> Entry:
        kind = kind_of(message)
        metadata = message.metadata
        kind, key = _address(kind.name, metadata.namespace, metadata.name)
        wanted = _wanted_revision(metadata.resource_version)
        uid = metadata.uid

        def change(entry: Entry) -> Step | None:
            if wanted and wanted != entry.revision:
                raise errors.conflict(kind, metadata.name)
            check_preconditions(entry, Preconditions(uid=uid))
            copy = kind.new()
            copy.CopyFrom(message)  # type: ignore[arg-type]
            return step(kind, copy, entry)

        return await self._storage.mutate_one(Mutation(kind, key, change), fence)

    def _update_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        old = entry.message
        admit_update(kind, message, old, classes=self._priority_classes())
        if is_over(message):
            return Step(None)
        return None if message == old else Step(self._encoded(kind, message))

    def _status_step(self, kind: Kind, message: AnyObject, entry: Entry) -> Step | None:
        updated = admit_status(kind, message, entry.message)
        return None if updated == entry.message else Step(self._encoded(kind, updated))

    async def patch(self, requests: Sequence[PatchRequest], fence: Fence | None) -> list[Outcome]:
        """Patch objects, each by itself."""
        outcomes: list[Outcome | None] = [None] * len(requests)
        mutations: list[tuple[int, Mutation]] = []
        for index, request in enumerate(requests):
            try:
                mutations.append((index, self._patch_mutation(request)))
            except ApiError as error:
                outcomes[index] = error
        results = await self._storage.mutate([mutation for _, mutation in mutations], fence)
        for (index, _), result in zip(mutations, results, strict=True):
            outcomes[index] = result
        return [outcome for outcome in outcomes if outcome is not None]

    def _patch_mutation(self, request: PatchRequest) -> Mutation:
        kind, key = _address(request.kind, request.namespace, request.name)
        patch = parse_patch(request)
        wanted = Preconditions(uid=request.uid)
        wanted_status = "status" in patch

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
            with_status = admit_status(kind, message, old) if wanted_status else None
            admit_update(kind, message, old, classes=self._priority_classes())
            if with_status is not None:
                take_status(message, with_status)
            if is_over(message):
                return Step(None)
            return None if message == old else Step(self._encoded(kind, message))

        return Mutation(kind, key, change)

    # ------------------------------------------------------------------ deleting

    async def delete(self, request: DeleteRequest, fence: Fence | None = None) -> Entry:
        """Delete an object, or mark it where it has to be let go first. Raises ApiError."""
        kind, key = _address(request.kind, request.namespace, request.name)
        check_deletable(kind, request.name)
        asked = request.grace_period_seconds if request.HasField("grace_period_seconds") else None
        wanted = request.preconditions

        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, wanted)
            return deletion_step(entry, asked, self._now())

        entry = await self._storage.mutate_one(Mutation(kind, key, change), fence)
        return entry if entry.is_readable() else entry.name_only()

    async def delete_collection(
        self, request: DeleteCollectionRequest, fence: Fence | None = None
    ) -> int:
        """Delete all that match as of now; how many there were. Raises ApiError."""
        kind = kind_named(request.kind)
        scope = Scope(
            [kind.name], request.namespace, request.label_selector, request.field_selector
        )
        try:
            entries = await self._lister.all(scope)
        except StoreError as error:
            raise errors.of_store(error) from error
        asked = request.grace_period_seconds if request.HasField("grace_period_seconds") else None
        mutations = []
        for entry in entries:
            check_deletable(kind, entry.key)
            mutations.append(
                Mutation(kind, entry.key, lambda found: deletion_step(found, asked, self._now()))
            )
        deleted = 0
        for start in range(0, len(mutations), _DELETE_AT_ONCE):
            outcomes = await self._storage.mutate(mutations[start : start + _DELETE_AT_ONCE], fence)
            for outcome in outcomes:
                if not isinstance(outcome, ApiError):
                    deleted += 1
                elif outcome.code is not StatusCode.NOT_FOUND:
                    raise outcome
        return deleted

    # ------------------------------------------------------------------ the beginning

    async def ensure_built_in(self) -> None:
        """Create what every cluster has. Raises ApiError when the store does not answer."""
        built_in: list[AnyObject] = list(system_priority_classes())
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            namespace = Namespace()
            namespace.metadata.name = name
            built_in.append(namespace)
        missing = [m for m in built_in if self._cache.get(kind_of(m), m.metadata.name) is None]
        for outcome in await self.create_many(missing):
            if isinstance(outcome, ApiError) and outcome.reason != StatusReason.ALREADY_EXISTS:
                raise outcome


def _address(kind_name: str, namespace: str, name: str) -> tuple[Kind, str]:
    """Return the kind and local key a request names. Raises ApiError."""
    kind = kind_named(kind_name)
    if not name:
        raise errors.bad_request("name must be specified", "name")
    for field, value in (("name", name), ("namespace", namespace)):
        if len(value) > _MAX_NAME:
            # No object can be called so, and a long text would be copied into keys and messages.
            raise errors.bad_request(f"{field} must be no more than {_MAX_NAME} characters", field)
    return kind, local_key(kind, local_namespace(kind, namespace), name)


def _wanted_revision(text: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(
            f'Invalid value: "{text}": must be a number', "metadata.resourceVersion"
        ) from None


def _check_identity(kind: Kind, message: AnyObject, old: AnyObject) -> None:
    """Return a patch may not rename."""
    new, before = message.metadata, old.metadata
    if (new.name, new.namespace) != (before.name, before.namespace):
        violation = errors.Violation("metadata.name", "field is immutable", "Invalid value")
        raise errors.invalid(kind, before.name, [violation])
