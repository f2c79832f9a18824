"""The pods that are not finished, bound or not, as the informer reported them last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

from podsched.cache.versions import Version, Versions
from podsched.framework.pods import PodInfo


class KnownPods:
    """The pods by "namespace/name" and by PodGroup."""

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        #: Others only read it.
        self.by_key: dict[str, PodInfo] = {}
        self._members: dict[str, dict[str, PodInfo]] = {}
        #: Changes with every pod that is added, replaced or deleted.
        self.changes = Version()
        #: The keys of the pods that were added, changed, deleted, or got or lost a node, in order,
        #: until the reader removes them; None while there is no reader.
        self.changed: OrderedDict[str, None] | None = None

    def copy(self, versions: Versions) -> KnownPods:
        """Return an independent copy, without a reader."""
        made = KnownPods(versions)
        made.by_key = dict(self.by_key)
        made._members = {group: dict(pods) for group, pods in self._members.items()}
        made.changes.version = self.changes.version
        return made

    def put(self, pod: PodInfo) -> None:
        """Add or replace a pod as the informer reports it; ``Cache`` counts it on its node."""
        self.by_key[pod.key] = pod
        self.note(pod.key)
        if pod.group:
            self._members.setdefault(pod.group, {})[pod.key] = pod
        self._versions.change(self.changes)

    def note(self, key: str) -> None:
        """Note that a pod has changed, if ``changed`` has a reader."""
        if self.changed is not None:
            self.changed[key] = None

    def delete(self, key: str) -> PodInfo | None:
        """Remove a pod by "namespace/name" and return it, if it was there."""
        self._versions.change(self.changes)
        self.note(key)
        pod = self.by_key.pop(key, None)
        if pod is not None and pod.group:
            members = self._members[pod.group]
            del members[key]
            if not members:
                del self._members[pod.group]
        return pod

    def members(self, group: str) -> Collection[PodInfo]:
        """Return the pods of a PodGroup ("namespace/name")."""
        found = self._members.get(group)
        return found.values() if found else ()
