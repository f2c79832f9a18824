"""Charges the growth of PersistentVolumeClaims to quotas, in the write that changes them.

An update or patch of a claim is charged by the difference, as by the admission plugin ResourceQuota
of Kubernetes v1.36 (evaluator/core/persistent_volume_claims.go), and refused with its message. An
update of the claim's status is not charged. Updates of other objects do not change their usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from podsched.api.etcd_keys import name_in, object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Balance, usage_of
from podsched.api.resources import Amounts
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.quotas.charging import charged_value, excess_of, unusable_because
from podsched.serve.server.quotas.recount import QuotaIndex, UsageRecounter
from podsched.serve.store.protocol import Compare, KeyValue, Put

_CLAIM = KINDS["PersistentVolumeClaim"]

#: The latest known versions of a namespace's quotas, by key.
_Known = dict[str, Entry]


class GrowthCharging:
    """Adds the charge of growing claims to mutations. now: Unix time in seconds."""

    def __init__(
        self,
        quotas: QuotaIndex,
        recounter: UsageRecounter,
        *,
        now: Callable[[], float],
    ) -> None:
        self._quotas = quotas
        self._recounter = recounter
        self._now = now

    async def charged(self, planned: Sequence[Mutation | ApiError]) -> list[Mutation | ApiError]:
        """Return mutations that also charge quotas if they are of claims. Raises ApiError.

        Without a quota they are returned unchanged, as are errors in place of mutations. A refusal
        is based on a recount, so that earlier deletions free quota.
        """
        known: dict[str, _Known] = {}
        found: list[Mutation | ApiError] = []
        for plan in planned:
            if isinstance(plan, Mutation) and plan.kind is _CLAIM and self._quotas:
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
            if not added:
                return step
            changes = _charge(known.values(), added, mutation)
            keys = [object_key(quota.kind, quota.key) for quota, _ in changes]
            compares = [
                Compare.mod_revision_is(key, quota.revision)
                for key, (quota, _) in zip(keys, changes, strict=True)
            ]
            puts = [Put(key, value) for key, (_, value) in zip(keys, changes, strict=True)]
            return step._replace(compares=(*step.compares, *compares), ops=(*step.ops, *puts))

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

    def _added(self, entry: Entry, value: bytes) -> Amounts:
        """Return the usage that a claim's new bytes add."""
        now = self._now()
        try:
            before = usage_of(_CLAIM, entry.message, now)
            after = usage_of(_CLAIM, _CLAIM.new().FromString(value), now)
        except QuantityError:  # not written by an API server
            return {}
        grown = {name: amount - before.get(name, 0) for name, amount in after.items()}
        return {name: amount for name, amount in grown.items() if amount > 0}


def _charge(
    quotas: Iterable[Entry], added: Amounts, mutation: Mutation
) -> list[tuple[Entry, bytes]]:
    """Return the quotas that change and their new bytes. Raises ApiError FORBIDDEN."""
    changes = []
    for entry in quotas:
        quota = entry.message
        assert isinstance(quota, ResourceQuota)
        try:
            balance = Balance(quota)
        except QuantityError as error:  # not written by an API server
            raise _forbidden(mutation, unusable_because(quota, error)) from None
        if not balance.concerns(None):
            continue
        if why := excess_of([balance], added):
            raise _forbidden(mutation, why)
        if balance.charge(added):
            changes.append((entry, charged_value(entry, balance)))
    return changes


def _forbidden(mutation: Mutation, why: str) -> ApiError:
    return errors.forbidden(mutation.kind, name_in(mutation.key), why)
