"""Knows what the pods of each node refer to, for the node authorizer.

An index over the watch cache, brought up to date in steps before the call of a node is handled
(``catch_up``): only servers that kubelets call pay for it. Mirror pods are left out, because a node
makes these itself and must not give itself rights by them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Pod
from podsched.api.pod_references import references
from podsched.api.service_accounts import is_mirror_pod
from podsched.lib.event_loop import Turn
from podsched.lib.groups import Grouped
from podsched.serve.server.change_ring import ExpiredError
from podsched.serve.server.watchcache import WatchCache

_POD: Final = KINDS["Pod"]
_NODE: Final = KINDS["Node"]
#: Changes that are taken from the cache at a time.
_AT_ONCE: Final = 500
#: What a node may do with the objects that its pods refer to, by resource.
_REFERRED: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "secrets": ("Secret", frozenset({"get", "list", "watch"})),
    "configmaps": ("ConfigMap", frozenset({"get", "list", "watch"})),
    "persistentvolumeclaims": ("PersistentVolumeClaim", frozenset({"get"})),
    "resourceclaims": ("ResourceClaim", frozenset({"get"})),
    "serviceaccounts": ("ServiceAccount", frozenset({"get"})),
    "serviceaccounts/token": ("ServiceAccount", frozenset({"create"})),
}
_REFERRED_GROUPS: Final = {"resourceclaims": "resource.k8s.io"}


class NodePods:
    """The pods of nodes, and what they refer to."""

    def __init__(self, cache: WatchCache) -> None:
        self._cache = cache
        # Before all changes, so that the first call reads all pods.
        self._position = -1
        self._lock = asyncio.Lock()
        #: By node, the pods with their keys.
        self._pods = Grouped[str, str, Pod]()
        #: What each pod refers to, computed on the first request.
        self._references: dict[str, frozenset[tuple[str, str]]] = {}

    def uid_of(self, node: str) -> str:
        """Return the uid of a node, "" if the cache has none of that name."""
        entry = self._cache.get(_NODE, node)
        return entry.message.metadata.uid if entry is not None else ""

    async def catch_up(self) -> None:
        """Take in the changes that the cache has had, yielding to other tasks."""
        if self._position == self._cache.ring.end:
            return
        async with self._lock:
            await self._catch_up()

    async def _catch_up(self) -> None:
        turn = Turn()
        while self._position != self._cache.ring.end:
            try:
                changes = self._cache.ring.changes_from(self._position, _AT_ONCE)
            except ExpiredError:
                await self._start(turn)
                continue
            self._position += len(changes)
            for change in changes:
                if change.kind is _POD:
                    self._note(change.key, change.new.message if change.new is not None else None)
            if turn.is_over:
                await turn.give_way()

    async def _start(self, turn: Turn) -> None:
        """Read all pods; changes made meanwhile follow.

        Other calls ask meanwhile, and this one may be cancelled: until all are read, what was known
        before stays.
        """
        found = NodePods(self._cache)
        found._position = self._cache.ring.end
        for entry in self._cache.in_order(_POD):
            found._note(entry.key, entry.message)
            if turn.is_over:
                await turn.give_way()
        self._position = found._position
        self._pods, self._references = found._pods, found._references

    def _note(self, key: str, pod: AnyObject | None) -> None:
        self._references.pop(key, None)
        if isinstance(pod, Pod) and pod.spec.node_name and not is_mirror_pod(pod):
            self._pods.move(key, pod.spec.node_name, pod)
        else:
            self._pods.remove(key)

    def refer_to(self, node: str, kind: str, namespace: str, name: str) -> bool:
        """Return whether a pod of a node refers to an object of its namespace."""
        for key, pod in self._pods.of(node).items():
            if key.partition("/")[0] != namespace:
                continue
            found = self._references.get(key)
            if found is None:
                found = self._references[key] = frozenset(references(pod))
            if (kind, name) in found:
                return True
        return False

    def permits(
        self, node: str, verb: str, group: str, resource: str, namespace: str, name: str
    ) -> bool:
        """Return whether a node may do this because one of its pods refers to the object."""
        kind, verbs = _REFERRED.get(resource, ("", frozenset()))
        if verb not in verbs or group != _REFERRED_GROUPS.get(resource, ""):
            return False
        return bool(name) and self.refer_to(node, kind, namespace, name)
