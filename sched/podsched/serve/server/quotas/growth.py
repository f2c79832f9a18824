"""Charges the growth of claims, Services and pods to quotas, in the write that changes them.

An update or patch of a PersistentVolumeClaim or a Service, and a resize of a pod, are charged by
the difference, as by the admission plugin ResourceQuota of Kubernetes v1.36 (pkg/quota/v1/evaluator
/core), and refused with its message. An update of the status is not charged. Updates of other
objects do not change their usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from podsched.api.etcd_keys import name_in, object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Balance, Usage, usage_of
from podsched.api.quota_scopes import scopes_of
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.quotas.charging import charged_value, excess_of, unusable_because
from podsched.serve.server.quotas.recount import QuotaIndex, UsageRecounter
from podsched.serve.store.protocol import Compare, KeyValue, Put

_GROWING = (KINDS["PersistentVolumeClaim"], KINDS["Service"])

#: The latest known versions of a namespace's quotas, by key.
_Known = dict[str, Entry]


class GrowthCharging:
    """Adds the charge of growing claims to mutations. now: Unix time in seconds."""

    def __init__(
        self, quotas: QuotaIndex, recounter: UsageRecounter, *, now: Callable[[], float]
    ) -> None:
        self._quotas = quotas
        self._recounter = recounter
        self._now = now

    async def charged(
        self, planned: Sequence[Mutation | ApiError], *, resized: bool = False
    ) -> list[Mutation | ApiError]:
        """Return mutations that also charge quotas for what objects use in addition.

        Without a quota they are returned unchanged, as are errors in place of mutations. A refusal
        is based on a recount, so that earlier deletions free quota. resized: they are of pods whose
        resources change. Raises ApiError.
        """
        known: dict[str, _Known] = {}
        found: list[Mutation | ApiError] = []
        for plan in planned:
            grows = isinstance(plan, Mutation) and (resized or plan.kind in _GROWING)
            if isinstance(plan, Mutation) and grows and self._quotas:
                namespace = plan.key.partition("/")[0]
                if self._quotas.of(namespace):
                    if namespace not in known:
                        known[namespace] = await self._recounter.recounted(namespace)
                    plan = self._charged(plan, known[namespace])
            found.append(plan)
        return found

    def _charged(self, mutation: Mutation, known: _Known) -> Mutation:
        def change(entry: Entry) -> Step | None:
            step = mutation.change(entry)
            if step is None or step.value is None:
                return step
            added = self._added(entry, step.value)
            if not added.amounts:
                return step
            compares, ops = [*step.compares], [*step.ops]
            for quota, charged in _charge(known.values(), added, mutation):
                key = object_key(quota.kind, quota.key)
                compares.append(Compare.mod_revision_is(key, quota.revision))
                ops.append(Put(key, charged))
            return step._replace(compares=tuple(compares), ops=tuple(ops))

        def take_newer(current: Mapping[str, KeyValue | None]) -> None:
            """Use the current versions of the quotas in the next attempt."""
            for quota in list(known.values()):
                key = object_key(quota.kind, quota.key)
                if key not in current:
                    continue
                kv = current[key]
                if kv is None:
                    del known[quota.key]
                else:
                    known[quota.key] = Entry.at(quota.kind, quota.key, kv)

        return mutation._replace(change=change, refusal=take_newer)

    def _added(self, entry: Entry, value: bytes) -> Usage:
        """Return the usage that an object's new bytes add."""
        kind, now = entry.kind, self._now()
        message = kind.new().FromString(value)
        try:
            before = usage_of(kind, entry.message, now)
            after = usage_of(kind, message, now)
        except QuantityError:  # not written by an API server
            return Usage({})
        grown = {name: amount - before.get(name, 0) for name, amount in after.items()}
        added = {name: amount for name, amount in grown.items() if amount > 0}
        return Usage(added, scopes_of(message))


def _charge(quotas: Iterable[Entry], added: Usage, mutation: Mutation) -> list[tuple[Entry, bytes]]:
    """Return the quotas that change and their new bytes. Raises ApiError FORBIDDEN."""
    changes = []
    for entry in quotas:
        quota = entry.message
        assert isinstance(quota, ResourceQuota)
        try:
            balance = Balance(quota)
        except QuantityError as error:  # not written by an API server
            raise _forbidden(mutation, unusable_because(quota, error)) from None
        if not balance.concerns(added.scopes):
            continue
        if why := excess_of([balance], added.amounts):
            raise _forbidden(mutation, why)
        if balance.charge(added.amounts):
            changes.append((entry, charged_value(entry, balance)))
    return changes


def _forbidden(mutation: Mutation, why: str) -> ApiError:
    return errors.forbidden(mutation.kind, name_in(mutation.key), why)
