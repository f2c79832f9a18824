"""Creates objects: sets defaults, validates and stores each object independently.

    check     the caller's rights, the namespace, and the classes that the object names
    admit     defaults, admission policies, validation; serialize
    store     missing namespaces first, then the objects, charged to quotas
    retry     with another generated name or address if that one is taken, or with a new lease

Events are attached to leases, by which etcd deletes them, and new ones replace the oldest
(``expiry``).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from podsched.api.etcd_keys import local_key
from podsched.api.kinds import kind_of
from podsched.api.metadata_defaulting import BUILT_IN_NAMESPACES, generated_name
from podsched.api.objects import (
    AnyObject,
    Event,
    Namespace,
    Pod,
    Service,
    copy_of,
    object_key,
    timestamp,
)
from podsched.api.owners import CONTROLLED_KINDS, OWN_KINDS
from podsched.api.priorities import system_priority_classes
from podsched.api.reasons import StatusReason
from podsched.api.trace_context import annotate
from podsched.serve.server import errors
from podsched.serve.server.access.bootstrap_policy import bootstrap_policy
from podsched.serve.server.access.object_checks import check_creation, check_new
from podsched.serve.server.admission import admit_new, encoded
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.call_warnings import add_warnings
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.expiry import EVENT, EventExpiry, EventRates
from podsched.serve.server.fairness.turns import Work
from podsched.serve.server.mutations import KeysTakenError, New, Outcome, only_entry
from podsched.serve.server.namespaces import NAMESPACE, Namespaces
from podsched.serve.server.quotas.charging import QuotaCharging
from podsched.serve.server.service_addresses import ServiceAddresses
from podsched.serve.server.watchcache import WatchCache
from podsched.telemetry.tracing import current_span
from podsched.v1.api_pb2 import Fence

#: Attempts to create an object with a generated name, as in Kubernetes.
_GENERATED_NAME_TRIES = 8
#: Attempts to create a Service. Each that fails was overtaken by another one's success.
_ADDRESS_TRIES = 32
#: Max Events about workloads without a controller for one call.
_MAX_UNMANAGED = 100
#: Kinds that only a kube-controller-manager makes pods of.
NEEDS_MANAGER: Final = frozenset(CONTROLLED_KINDS) - OWN_KINDS
#: Warning for such a workload while no kube-controller-manager runs.
NO_CONTROLLER: Final = (
    "a {kind} makes no pods: podsched has controllers for ReplicaSets and Jobs only, and no "
    "kube-controller-manager renews its Lease in kube-system; run one, or submit a ReplicaSet, a "
    "Job or the pods instead"
)
_REPORTER: Final = "podsched-apiserver"

_T = TypeVar("_T")


def random_uid() -> str:
    """Return a new object's uid."""
    return str(uuid.uuid4())


class _Item(NamedTuple):
    """One object of a batch being created: its index, and its write.

    ``message`` is kept only for a generated name, which may turn out to be taken, and of a Service:
    as it was before addresses were allocated. taken: keys that others have been found to have.
    """

    place: int
    new: New
    message: AnyObject | None
    taken: frozenset[str] = frozenset()


def _once(operation: Callable[[], Awaitable[_T]]) -> Callable[[], Awaitable[_T]]:
    """Return a function that does this once, for all objects of a call; it may raise ApiError."""
    outcomes: list[_T | ApiError] = []

    async def outcome() -> _T:
        if not outcomes:
            outcomes.append(await errors.awaited(operation()))
        (found,) = outcomes
        if isinstance(found, ApiError):
            # Its traceback would keep the objects in memory for which it was raised before.
            raise found.with_traceback(None)
        return found

    return outcome


class _Batch:
    """What the objects of one call share."""

    def __init__(self, sources: AdmissionSources, expiry: EventExpiry) -> None:
        #: The new namespaces so far, which later objects may use.
        self.namespaces: set[str] = set()
        #: Waits until the cache shows what was written before the call.
        self.refresh = _once(sources.refresh)
        #: Returns the lease of new Events.
        self.lease = _once(expiry.lease)


class Creator:
    """Creates objects of any kind. Methods raise ApiError if a call fails as a whole.

    now: Unix time in seconds; new_uid: a random uid.
    """

    def __init__(
        self,
        sources: AdmissionSources,
        namespaces: Namespaces,
        expiry: EventExpiry,
        quotas: QuotaCharging,
        addresses: ServiceAddresses,
        *,
        now: Callable[[], float],
        new_uid: Callable[[], str],
    ) -> None:
        self._sources = sources
        self._addresses = addresses
        self._namespaces = namespaces
        self._expiry = expiry
        self._quotas = quotas
        self._now = now
        self._new_uid = new_uid
        self._event_rates = EventRates()

    async def create(
        self,
        message: AnyObject,
        fence: Fence | None = None,
        *,
        dry_run: bool = False,
        of_kubernetes: bool = False,
    ) -> Entry:
        """Store a new object; of_kubernetes: of a request in Kubernetes' API. Raises ApiError."""
        outcomes = await self.create_many(
            [message], fence, dry_run=dry_run, of_kubernetes=of_kubernetes
        )
        return only_entry(outcomes)

    async def create_many(
        self,
        messages: Iterable[AnyObject | ApiError],
        fence: Fence | None = None,
        *,
        dry_run: bool = False,
        of_kubernetes: bool = False,
    ) -> list[Outcome]:
        """Store new objects, each independently; the messages are completed in place.

        ``messages`` is consumed in one pass, and each message is released once serialized. An error
        in place of a message becomes its outcome.
        """
        outcomes: list[Outcome | None] = []
        items: list[_Item] = []
        batch = _Batch(self._sources, self._expiry)
        work = Work()
        for index, message in enumerate(messages):
            found = await self._admitted_or_error(
                index, message, batch, of_kubernetes=of_kubernetes, dry_run=dry_run
            )
            if isinstance(found, ApiError):
                outcomes.append(found)
            else:
                outcomes.append(None)
                items.append(found)
            if work.turn_is_over:
                await work.give_way()
        work.end()
        if dry_run:
            for item in items:
                outcomes[item.place] = Entry(item.new.kind, item.new.key, item.new.value, 0, 0)
        else:
            await self._namespaces.create_missing((item.new for item in items), batch.namespaces)
            items = _with_room(self._expiry, items)
            await self._store(items, outcomes, fence)
            await self._sources.settle(outcomes)
            await self._tell_of_no_controller(outcomes)
        return [outcome for outcome in outcomes if outcome is not None]

    async def _tell_of_no_controller(self, outcomes: Iterable[Outcome | None]) -> None:
        """Write Events about new workloads that no controller makes pods of, if that succeeds."""
        new = [o for o in outcomes if isinstance(o, Entry) and o.kind.name in NEEDS_MANAGER]
        now = self._now()
        if not new or self._sources.has_controller_manager(now):
            return
        with suppress(ApiError):
            lease = await self._expiry.lease()
            items = []
            for at, entry in enumerate(new[:_MAX_UNMANAGED]):
                kind = entry.kind
                event = no_controller_event(kind.name, kind.api_version, entry.message, now)
                items.append(_Item(at, self._admitted(event, lease, of_kubernetes=False), None))
            await self._store(_with_room(self._expiry, items), [None] * len(items), None)

    async def _store(
        self, items: list[_Item], outcomes: list[Outcome | None], fence: Fence | None
    ) -> None:
        """Store the items of a batch, and put their outcomes into ``outcomes``."""
        for attempt in range(1, _ADDRESS_TRIES + 1):
            if not items:
                return
            results = await self._quotas.create([item.new for item in items], fence)
            retries, work = [], Work()
            for item, result in zip(items, results, strict=True):
                outcomes[item.place] = result
                if not isinstance(result, ApiError):
                    continue
                try:
                    retry = await self._retry_of(item, result, attempt)
                except ApiError as error:
                    outcomes[item.place] = error
                else:
                    retries += [retry] if retry is not None else []
                # Where few addresses are free, to find one takes a millisecond.
                if work.turn_is_over:
                    await work.give_way()
            work.end()
            items = retries

    async def _admitted_or_error(
        self,
        index: int,
        message: AnyObject | ApiError,
        batch: _Batch,
        *,
        of_kubernetes: bool,
        dry_run: bool,
    ) -> _Item | ApiError:
        """Check and admit one object of a batch; return its write, or the error as its outcome."""
        if isinstance(message, ApiError):
            return message
        try:
            await self._check(message, batch)
            lease = 0
            if isinstance(message, Event) and not dry_run:
                self._event_rates.admit(message)
                lease = await batch.lease()
            new = self._admitted(message, lease, of_kubernetes)
            if dry_run:
                await self._quotas.check(new)
        except ApiError as error:
            return error
        if new.kind is NAMESPACE:
            batch.namespaces.add(new.key)
        kept = message.metadata.generate_name or isinstance(message, Service)
        return _Item(index, new, message if kept else None)

    async def _check(self, message: AnyObject, batch: _Batch) -> None:
        """Raise ApiError if the caller or the object's namespace does not permit its creation."""
        kind = kind_of(message)
        check_creation(kind, message)
        if not self._namespaces.accepts(kind, message):
            await self._namespaces.check(kind, message, batch.namespaces, batch.refresh)
        known = self._sources.has_all_for(message)
        if not known or (isinstance(message, Service) and self._addresses.are_taken(message)):
            await batch.refresh()

    def _admitted(self, message: AnyObject, lease: int, of_kubernetes: bool) -> New:
        """Complete and validate a new object, and return it serialized. Raises ApiError."""
        kind = kind_of(message)
        admit_new(
            kind,
            message,
            now=self._now(),
            uid=self._new_uid(),
            sources=self._sources,
            of_kubernetes=of_kubernetes,
        )
        check_new(kind, message)
        metadata = message.metadata
        if isinstance(message, Pod) and (span := current_span()).recording:
            annotate(metadata.annotations, span.context.partition(",")[0], int(self._now() * 1e9))
        if kind.name in NEEDS_MANAGER and not self._sources.has_controller_manager(self._now()):
            add_warnings(NO_CONTROLLER.format(kind=kind.name))
        usage = self._quotas.usage_of(kind, message)
        return self._written(New(kind, "", b"", lease, usage=usage), message, ())

    async def _retry_of(self, item: _Item, error: ApiError, attempt: int) -> _Item | None:
        """Return an item to retry with, if its generated name, address or lease caused the error.

        Raises ApiError if the address that a Service asks for is taken.
        """
        if error.reason == StatusReason.LEASE_NOT_FOUND:
            self._expiry.forget_lease(item.new.lease)
            try:
                return item._replace(new=item.new._replace(lease=await self._expiry.lease()))
            except ApiError:
                return None
        message = item.message
        if message is None:
            return None
        if isinstance(error, KeysTakenError):
            item = item._replace(taken=item.taken | error.keys)
        else:
            taken = error.reason == StatusReason.ALREADY_EXISTS
            if not taken or attempt >= _GENERATED_NAME_TRIES or not _rename(message, self._new_uid):
                return None
        return item._replace(new=self._written(item.new, message, item.taken))

    def _written(self, new: New, message: AnyObject, taken: Container[str]) -> New:
        """Return a write with the present name of its object, and with a Service's addresses.

        taken: keys of addresses that others have. Raises ApiError.
        """
        exclusive: tuple[str, ...] = ()
        if isinstance(message, Service):
            allocated = copy_of(message)
            exclusive = tuple(self._addresses.allocate(allocated, Service(), taken))
            message = allocated
        key = local_key(new.kind, message.metadata.namespace, message.metadata.name)
        return new._replace(key=key, value=encoded(new.kind, message), exclusive=exclusive)


def _rename(message: AnyObject, new_uid: Callable[[], str]) -> bool:
    """Give an object another generated name; return False if the client chose its name."""
    metadata = message.metadata
    if metadata.name != generated_name(metadata.generate_name, metadata.uid):
        return False
    metadata.uid = new_uid()
    metadata.name = generated_name(metadata.generate_name, metadata.uid)
    return True


def _with_room(expiry: EventExpiry, items: list[_Item]) -> list[_Item]:
    """Return the items, with operations that remove the oldest Events if there are too many."""
    events = [at for at, item in enumerate(items) if item.new.kind is EVENT]
    removals = expiry.make_room([items[at].new.key for at in events]) if events else []
    for number, at in enumerate(events):
        also = tuple(removals[number :: len(events)])
        items[at] = items[at]._replace(new=items[at].new._replace(also=also))
    return items


def no_controller_event(kind: str, api_version: str, message: AnyObject, now: float) -> Event:
    """Return the Event about a new workload. now: Unix time in seconds."""
    about = message.metadata
    event = Event(reason="NoController", type="Warning", count=1)
    event.metadata.namespace = about.namespace
    # The form of client-go's names; cut to leave room for the time within 253 characters.
    event.metadata.name = f"{about.name[:200]}.{int(now * 1e9):x}"
    event.involved_object.kind, event.involved_object.api_version = kind, api_version
    event.involved_object.namespace, event.involved_object.name = about.namespace, about.name
    event.involved_object.uid = about.uid
    event.message = NO_CONTROLLER.format(kind=kind)
    event.source.component = event.reporting_controller = _REPORTER
    event.first_timestamp.CopyFrom(timestamp(now, whole=True))
    event.last_timestamp.CopyFrom(event.first_timestamp)
    return event


async def ensure_built_in(creator: Creator, cache: WatchCache) -> None:
    """Create the built-in objects of a cluster. Raises ApiError."""
    namespaces = [Namespace(metadata={"name": name}) for name in BUILT_IN_NAMESPACES]
    # Namespaces first, since some of the roles are in them.
    for built_in in (namespaces, [*system_priority_classes(), *bootstrap_policy()]):
        missing = [m for m in built_in if cache.get(kind_of(m), object_key(m)) is None]
        for outcome in await creator.create_many(missing):
            if isinstance(outcome, ApiError) and outcome.reason != StatusReason.ALREADY_EXISTS:
                raise outcome
