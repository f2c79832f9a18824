"""Devices: each belongs to one claim, and is given back when no pod needs it any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from podsched.api.conditions import is_finished
from podsched.api.device_claims import exclusive_devices
from podsched.api.objects import ResourceClaim
from podsched.lab.chaos.history import DEVICE_CLAIMS, History, Violation, World
from podsched.lab.chaos.promises.lasting import Lasting, after_the_faults
from podsched.term.controllers.resource_claims import IDLE

ONCE = "a device belongs to one claim"
USED = "an allocation is used, or cleared in time"


def once(history: History) -> Iterator[Violation]:
    """Find devices that a revision gave to a claim while another one had them."""
    owners: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    held: dict[str, list[tuple[str, str, str]]] = {}
    for revision in history.revisions:
        changed = [of for of in revision.changes if of.key.startswith(DEVICE_CLAIMS)]
        for change in changed:
            for device in held.pop(change.key, ()):
                owners[device].discard(change.key)
        for change in changed:
            claim = change.object
            devices = exclusive_devices(claim) if isinstance(claim, ResourceClaim) else ()
            held[change.key] = list(devices)
            for device in held[change.key]:
                owners[device].add(change.key)
                if len(owners[device]) > 1:
                    keys = sorted(owners[device])
                    names = " and ".join(key.removeprefix(DEVICE_CLAIMS) for key in keys)
                    text = f"device {'/'.join(device)} belongs to the claims {names}"
                    yield Violation(ONCE, text, revision.at, revision.number, tuple(keys))


def used(history: History) -> Iterator[Violation]:
    """Find claims that kept devices without a pod that needs them, for long after the last fault.

    During faults there may be no leader to give them back, and the leader itself waits for pods
    that may want a claim that no pod has reserved.
    """
    unused = Lasting(history.begin.within + IDLE)
    for world, at in after_the_faults(history):
        for key, seconds in unused.too_long(unused_claims(world), at):
            text = f"claim {key} keeps its devices for {seconds:.1f} s, and no pod needs them"
            yield Violation(USED, text, at, 0, (DEVICE_CLAIMS + key,))


def unused_claims(world: World) -> Iterator[str]:
    """Yield the keys of claims that have devices although no pod that needs them has reserved them.

    A pod that has ended needs none.
    """
    for key, claim in world.device_claims.items():
        if claim.status.allocation.devices.results and not _is_needed(world, key, claim):
            yield key


def _is_needed(world: World, key: str, claim: ResourceClaim) -> bool:
    namespace = key.partition("/")[0]
    for consumer in claim.status.reserved_for:
        name = f"{namespace}/{consumer.name}"
        pod = world.pods.get(name)
        if pod is not None and world.uids[name] == consumer.uid and not is_finished(pod):
            return True
    return False
