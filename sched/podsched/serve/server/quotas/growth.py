"""Claims that grow: what they ask for in addition is charged in the write that changes them.

An update or a patch of a claim is counted by the difference, as the admission plugin ResourceQuota
of Kubernetes v1.36 does (evaluator/core/persistent_volume_claims.go); its status is not. What no
quota permits is refused with Kubernetes' words. Pods and other objects use as much after an update
as before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import ResourceQuota
from podsched.api.quantity import QuantityError
from podsched.api.quota import Balance, usage_of
from podsched.api.resources import Amounts
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.quotas.charging import charged_value, excess_of, unusable_because
from podsched.serve.server.quotas.namespaces import QuotaIndex
from podsched.serve.server.quotas.recount import UsageRecounter
from podsched.serve.server.storage import Mutation, Step
from podsched.serve.store.protocol import Compare, KeyValue, Put

_CLAIM = KINDS["PersistentVolumeClaim"]

#: The quotas of one namespace by key, the latest that is known.
_Known = dict[str, Entry]


class GrowthCharging:
    """Makes changes of claims charge what they add. now: Unix time in seconds."""

    def __init__(
        self,
        quotas: QuotaIndex,
        recounter: UsageRecounter,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._quotas = quotas
        self._recounter = recounter
        self._now = now

    async def charged(self, mutations: Sequence[Mutation]) -> list[Mutation]:
        """Return changes that charge quotas as well, where they are of claims. Raises ApiError.

        Where no quota is they are returned as they are. A refusal is decided on quotas that were
        counted anew, so that what was deleted before makes room.
        """
        known: dict[str, _Known] = {}
        found = []
        for mutation in mutations:
            namespace = mutation.key.partition("/")[0]
            if mutation.kind is _CLAIM and self._quotas and self._quotas.of(namespace):
                if namespace not in known:
                    known[namespace] = await self._recounter.settle(namespace)
                mutation = self._charged(mutation, known[namespace])
            found.append(mutation)
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
            """Go by the quotas as they are now, and try again."""
            for quota in list(known.values()):
                key = object_key(quota.kind, quota.key)
                if key not in current:
                    continue
                kv = current[key]
                if kv is None:
                    del known[quota.key]
                else:
                    known[quota.key] = Entry(
                        quota.kind, quota.key, kv.value, kv.mod_revision, kv.create_revision
                    )

        return mutation._replace(change=change, refusal=take_newer)

    def _added(self, entry: Entry, value: bytes) -> Amounts:
        """Return by how much more a claim counts with its new bytes."""
        now = self._now()
        try:
            before = usage_of(_CLAIM, entry.message, now)
            after = usage_of(_CLAIM, _CLAIM.new().FromString(value), now)
        except QuantityError:  # planted: nothing that a server would have stored
            return {}
        grown = {name: amount - before.get(name, 0) for name, amount in after.items()}
        return {name: amount for name, amount in grown.items() if amount > 0}


def _charge(
    quotas: Iterable[Entry], added: Amounts, mutation: Mutation
) -> list[tuple[Entry, bytes]]:
    """Return the quotas that change, and what to. Raises ApiError FORBIDDEN for too much."""
    changes = []
    for entry in quotas:
        quota = entry.message
        assert isinstance(quota, ResourceQuota)
        try:
            balance = Balance(quota)
        except QuantityError as error:  # written by somebody else than an API server
            raise _forbidden(mutation, unusable_because(quota, error)) from None
        if not balance.concerns(None):
            continue
        if why := excess_of([balance], added):
            raise _forbidden(mutation, why)
        if balance.charge(added):
            changes.append((entry, charged_value(entry, balance)))
    return changes


def _forbidden(mutation: Mutation, why: str) -> errors.ApiError:
    return errors.forbidden(mutation.kind, mutation.key.rpartition("/")[2], why)
