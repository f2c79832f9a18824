"""New objects: completed, validated and stored, each by itself.

An object whose name the server made up gets another name when that one is taken; Events share
leases and make room for themselves (``expiry``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence

from podsched.api.defaulting import generated_name
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Namespace
from podsched.api.priorities import system_priority_classes
from podsched.api.reasons import StatusReason
from podsched.server import errors
from podsched.server.admission import admit_new, encoded
from podsched.server.entries import Entry
from podsched.server.errors import ApiError
from podsched.server.expiry import EVENT, EventExpiry
from podsched.server.priority_classes import PriorityClassCache
from podsched.server.storage import New, ObjectStorage, Outcome, only_entry
from podsched.server.watchcache import WatchCache
from podsched.store.errors import StoreError
from podsched.v1.api_pb2 import Fence

_GENERATED_NAME_TRIES = 8
_BUILT_IN_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Creator:
    """Creates objects of any kind. Methods raise ApiError when a call fails as a whole.

    now: Unix time in seconds; new_uid: a random uid.
    """

    def __init__(
        self,
        storage: ObjectStorage,
        classes: PriorityClassCache,
        expiry: EventExpiry,
        *,
        now: Callable[[], float] = time.time,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._storage = storage
        self._classes = classes
        self._expiry = expiry
        self._now = now
        self._new_uid = new_uid

    async def create(
        self, message: AnyObject, fence: Fence | None = None, *, dry_run: bool = False
    ) -> Entry:
        """Store a new object. Raises ApiError. A dry run goes as far as the store."""
        if dry_run:
            await self._classes.ensure_known([message])
            new = self._admitted(message, 0)
            return Entry(new.kind, new.key, new.value, 0, 0)
        return only_entry(await self.create_many([message], fence))

    async def create_many(
        self, messages: Sequence[AnyObject], fence: Fence | None = None
    ) -> list[Outcome]:
        """Store new objects, each by itself; the messages are completed in place."""
        await self._classes.ensure_known(messages)
        lease = await self._lease_for(messages)
        outcomes: list[Outcome | None] = [None] * len(messages)
        items: list[tuple[int, New]] = []
        for index, message in enumerate(messages):
            try:
                items.append((index, self._admitted(message, lease)))
            except ApiError as error:
                outcomes[index] = error
        items = self._with_room(items)
        for _ in range(_GENERATED_NAME_TRIES):
            results = await self._storage.create([item for _, item in items], fence)
            retries: list[tuple[int, New]] = []
            for (index, item), result in zip(items, results, strict=True):
                outcomes[index] = result
                if isinstance(result, ApiError):
                    retry = await self._retry_of(item, messages[index], result)
                    if retry is not None:
                        retries.append((index, retry))
            items = retries
            if not items:
                break
        return [outcome for outcome in outcomes if outcome is not None]

    async def ensure_built_in(self, cache: WatchCache) -> None:
        """Create what every cluster has. Raises ApiError when the store does not answer."""
        built_in: list[AnyObject] = list(system_priority_classes())
        for name in _BUILT_IN_NAMESPACES:
            namespace = Namespace()
            namespace.metadata.name = name
            built_in.append(namespace)
        missing = [m for m in built_in if cache.get(kind_of(m), m.metadata.name) is None]
        for outcome in await self.create_many(missing):
            if isinstance(outcome, ApiError) and outcome.reason != StatusReason.ALREADY_EXISTS:
                raise outcome

    def _admitted(self, message: AnyObject, lease: int) -> New:
        kind, classes = kind_of(message), self._classes.current()
        admit_new(kind, message, now=self._now(), uid=self._new_uid(), classes=classes)
        metadata = message.metadata
        value = encoded(kind, message)
        key = local_key(kind, metadata.namespace, metadata.name)
        return New(kind, key, value, lease if kind is EVENT else 0)

    async def _retry_of(self, item: New, message: AnyObject, error: ApiError) -> New | None:
        """Return the item to try instead, if its generated name or shared lease was at fault."""
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

    async def _lease_for(self, messages: Sequence[AnyObject]) -> int:
        if not any(kind_of(message) is EVENT for message in messages):
            return 0
        try:
            return await self._expiry.lease()
        except StoreError as error:
            raise errors.of_store(error) from error

    def _with_room(self, items: list[tuple[int, New]]) -> list[tuple[int, New]]:
        """Return the items, new Events with the removal of the oldest in the same write."""
        coming = sum(item.kind is EVENT for _, item in items)
        removals = self._expiry.make_room(coming) if coming else []
        if not removals:
            return items
        return [
            (i, item._replace(also=(removals.pop(),)) if item.kind is EVENT and removals else item)
            for i, item in items
        ]
