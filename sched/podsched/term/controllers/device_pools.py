"""The tainted devices of ResourceSlices, by pool, and the claims and pods that use them."""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.device_claims import GROUPS, claim_names, is_own_claim, is_reserved_for
from podsched.api.device_taints import rule_matches
from podsched.api.objects import (
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    Pod,
    ResourceClaim,
    ResourceSlice,
    Taint,
)
from podsched.api.pod_groups import group_key
from podsched.api.tolerations import NO_EXECUTE
from podsched.lib.groups import Grouped, Groups
from podsched.term.controllers.controller import Objects, find
from podsched.term.controllers.workqueue import WorkQueue

#: Driver and name of a pool.
PoolKey = tuple[str, str]
#: The NoExecute taints of a pool's devices, by the devices' names.
_Taints = dict[str, list[Taint]]


class DevicePools:
    """The slices of each pool, their taints, and the claims and pods that have devices of it."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._slices = Groups[PoolKey, str, None]()
        #: The claims that have devices of a pool.
        self.users = Groups[PoolKey, str, None]()
        #: The pods with claims of each PodGroup.
        self._members = Grouped[str, str, None]()
        self._taints: dict[PoolKey, _Taints] = {}
        """Only pools with tainted devices."""
        self._changed = WorkQueue[PoolKey]()

    def note_slice(self, key: str, piece: ResourceSlice, *, is_there: bool) -> None:
        pool = (piece.spec.driver, piece.spec.pool.name)
        if is_there:
            self._slices.put(pool, key, None)
        else:
            self._slices.drop(pool, key)
        self._changed.add(pool)

    def note_claim(self, key: str, claim: ResourceClaim, *, is_there: bool) -> None:
        for pool in {(of.driver, of.pool) for of in claim.status.allocation.devices.results}:
            if is_there:
                self.users.put(pool, key, None)
            else:
                self.users.drop(pool, key)

    def note_pod(self, key: str, pod: Pod | None) -> None:
        """Note a pod that is new, or has changed; None: it is gone."""
        group = group_key(pod) if pod is not None and pod.spec.resource_claims else ""
        self._members.move(key, group or None, None)

    def consumers_of(self, claim: ResourceClaim) -> Iterator[str]:
        """Yield the pods that a claim is reserved for, and the pods of such groups."""
        for consumer in claim.status.reserved_for:
            key = f"{claim.metadata.namespace}/{consumer.name}"
            if (consumer.api_group, consumer.resource) == (GROUPS, "podgroups"):
                yield from self._members.of(key)
            elif not consumer.api_group and consumer.resource == "pods":
                yield key

    def claims_with_new_taints(self) -> Iterator[str]:
        """Yield the claims with devices of pools whose taints have changed since the last call."""
        for pool in self._changed.take():
            taints = self._taints_of(pool)
            if taints == self._taints.get(pool, {}):
                continue
            self._taints.pop(pool, None)
            if taints:
                self._taints[pool] = taints
            yield from self.users.of(pool)

    def _taints_of(self, pool: PoolKey) -> _Taints:
        found: _Taints = {}
        for piece in self._newest_slices(pool):
            for device in piece.spec.devices:
                if taints := [taint for taint in device.taints if taint.effect == NO_EXECUTE]:
                    found.setdefault(device.name, taints)
        return found

    def _newest_slices(self, pool: PoolKey) -> list[ResourceSlice]:
        there = (find(self._objects, ResourceSlice, name) for name in self._slices.of(pool))
        slices = [piece for piece in there if piece is not None]
        newest = max((piece.spec.pool.generation for piece in slices), default=0)
        return [piece for piece in slices if piece.spec.pool.generation == newest]

    def evicting_taints(
        self, result: DeviceRequestAllocationResult
    ) -> Iterator[tuple[Taint, DeviceTaintRule | None]]:
        """Yield the NoExecute taints of an allocated device, with the rule that adds each."""
        devices = self._taints.get((result.driver, result.pool), {})
        for taint in devices.get(result.device, ()):
            yield taint, None
        for rule in evicting_rules(self._objects):
            if rule_matches(rule, result.driver, result.pool, result.device):
                yield rule.spec.taint, rule

    def allocated_to(self, rule: DeviceTaintRule) -> list[PoolKey]:
        """Return the pools with allocated devices of which a rule may select some."""
        any_device = rule.spec.device_selector.device
        return [pool for pool in self.users if rule_matches(rule, *pool, any_device)]

    def published(self, rule: DeviceTaintRule) -> int:
        """Return how many devices in slices a rule selects."""
        any_device = rule.spec.device_selector.device
        return sum(
            rule_matches(rule, *pool, device.name)
            for pool in self._slices
            if rule_matches(rule, *pool, any_device)
            for piece in self._newest_slices(pool)
            for device in piece.spec.devices
        )


def evicting_rules(objects: Objects) -> Iterator[DeviceTaintRule]:
    """Yield the rules whose taint evicts."""
    for rule in objects.objects("DeviceTaintRule").values():
        if isinstance(rule, DeviceTaintRule) and rule.spec.taint.effect == NO_EXECUTE:
            yield rule


def claims_of(objects: Objects, pod: Pod) -> Iterator[ResourceClaim]:
    """Yield the claims that a bound pod uses."""
    if not pod.spec.node_name:
        return
    for ref, name in claim_names(pod):
        claim = find(objects, ResourceClaim, f"{pod.metadata.namespace}/{name}")
        if claim is None or not is_reserved_for(pod, claim):
            continue
        if ref.resource_claim_name or is_own_claim(pod, claim):
            yield claim
