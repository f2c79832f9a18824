"""The devices of ResourceClaims as amounts of resources, for quota.

A device counts as one of the resource to which the configuration maps its DeviceClass, or else of
the class's extended resource. A claim that several pods use counts once, for the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from podsched.api.device_claims import claim_names
from podsched.api.objects import DeviceClass
from podsched.config.queues import DeviceClassMapping
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.lib.groups import Groups

CLAIM: Final = "ResourceClaim"
_CLASS: Final = "DeviceClass"

UNMAPPED: Final = (
    "DeviceClass {} of ResourceClaim {} counts as no resource of quotas: give it an "
    "extendedResourceName, or map it in queues.resources.deviceClassMappings"
)
UNCOUNTABLE: Final = (
    "request {} of ResourceClaim {} cannot be counted: with quota it has to ask for a number of "
    "devices of one class"
)


class UncountableError(Exception):
    """The devices of a claim cannot be counted; the text says why."""


class DeviceQuota:
    """Counts the devices of claims, and remembers which pods name which claim."""

    def __init__(
        self,
        cluster: ClusterView,
        mappings: Iterable[DeviceClassMapping],
        stale: dict[str, None],
    ) -> None:
        """``stale`` gets the keys of units that ask for other devices than before."""
        self._stale = stale
        self._cluster = cluster
        self._resources = {
            name: mapping.name for mapping in mappings for name in mapping.device_class_names
        }
        #: By key of the claim, the keys of its pods with a node; the claim counts for the first.
        self._users: Groups[str, str, None] = Groups()
        #: By key of the claim, its pods without a node, each with the key of its unit.
        self._waiting: Groups[str, str, str] = Groups()

    def is_complete(self, pod: PodInfo) -> bool:
        """Whether all claims of a pod exist."""
        if not pod.cls.spec.resource_claims:
            return True
        return all(
            name is not None and self._cluster.get(CLAIM, pod.namespace, name) is not None
            for _, name in claim_names(pod.pod)
        )

    def wait(self, pod: PodInfo, unit: str) -> None:
        """Note that a pod of a unit has no node."""
        for key in _claims(pod):
            self._waiting.put(key, pod.key, unit)

    def end_wait(self, pod: PodInfo) -> None:
        """Note that a pod is gone, or has got a node."""
        for key in _claims(pod):
            self._waiting.drop(key, pod.key)

    def read_again(self, claim: str) -> None:
        """Have the units read again whose pods without a node name a claim, by its key."""
        self._stale.update(dict.fromkeys(self._waiting.of(claim).values()))

    def asked(self, pods: Iterable[PodInfo]) -> dict[str, dict[str, int]]:
        """Return the devices that pods without a node would use: amounts by resource, by pod uid.

        Claims that already count for a pod with a node are left out. Raises UncountableError.
        """
        seen: set[str] = set()
        found = {}
        for pod in pods:
            new = [key for key in _claims(pod) if key not in seen and key not in self._users]
            seen.update(new)
            if amounts := self._sum(new):
                found[pod.uid] = amounts
        return found

    def use(self, pod: PodInfo) -> dict[str, int]:
        """Note that a pod has a node; return the devices that count for it, by resource."""
        new = []
        for key in _claims(pod):
            users = self._users.of(key)
            if not users:
                self.read_again(key)
            if not users or next(iter(users)) == pod.key:
                new.append(key)
            self._users.put(key, pod.key, None)
        try:
            return self._sum(new)
        except UncountableError:
            return {}  # The pod runs already: it is too late to refuse it.

    def leave(self, pod: PodInfo) -> list[str]:
        """Note that a pod is gone; return the keys of the pods to which its shared claims pass."""
        heirs = []
        for key in _claims(pod):
            users = self._users.of(key)
            was_first = next(iter(users), "") == pod.key
            self._users.drop(key, pod.key)
            if not users:
                self.read_again(key)
            elif was_first:
                heirs.append(next(iter(users)))
        return heirs

    def forget(self) -> None:
        """Forget all pods."""
        self._users, self._waiting = Groups(), Groups()

    def _sum(self, keys: Iterable[str]) -> dict[str, int]:
        """Return the devices that some claims ask for, by resource. Raises UncountableError."""
        total = Counter[str]()
        for key in keys:
            namespace, _, name = key.partition("/")
            claim = self._cluster.get(CLAIM, namespace, name)
            for request in () if claim is None else claim.spec.devices.requests:
                exactly = request.exactly
                if exactly.admin_access:
                    continue  # It takes no devices from others.
                if request.first_available or exactly.allocation_mode == "All":
                    raise UncountableError(UNCOUNTABLE.format(request.name, name))
                resource = self._resource(exactly.device_class_name)
                if not resource:
                    raise UncountableError(UNMAPPED.format(exactly.device_class_name, name))
                total[resource] += exactly.count or 1
        return total

    def _resource(self, name: str) -> str:
        if mapped := self._resources.get(name, ""):
            return mapped
        found: DeviceClass | None = self._cluster.get(_CLASS, "", name)
        return "" if found is None else found.spec.extended_resource_name


def _claims(pod: PodInfo) -> list[str]:
    """Return the keys of a pod's claims, each once."""
    if not pod.cls.spec.resource_claims:
        return []
    names = (name for _, name in claim_names(pod.pod) if name is not None)
    return [f"{pod.namespace}/{name}" for name in dict.fromkeys(names)]
