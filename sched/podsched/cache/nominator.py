"""Nominated pods: pending pods for which preemption makes room on a node (the nominator).

Filters count a nominated pod as if it were on its node. A nomination can be in memory only, while
its status patch is under way, or in the pod's status. Source: kube-scheduler v1.36,
``backend/queue/nominator.go``. Non-goal: deciding whether a pod may be nominated; the cache refuses
pods that are bound or unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from podsched.cache.ordering import Orders
from podsched.framework.changed_keys import ChangedKeys
from podsched.framework.pods import PodInfo


class Nomination(NamedTuple):
    """A pod's nomination, and the pod's number among those that are nominated to the node."""

    pod: PodInfo
    node_name: str
    number: int


class Nominator:
    """Nominated pods by node, in the order of their nomination, and nodes by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        #: The nodes of the latest changes.
        self._changed: ChangedKeys[str] = ChangedKeys()
        #: The position in them: it grows whenever a nomination is made, moved or withdrawn.
        self.version = 0
        #: The order of each node's nominations, while a trial is open.
        self.orders = Orders()

    def copy(self) -> Nominator:
        """Return an independent copy; its versions start again, because its readers are others."""
        made = Nominator()
        made._pods = {name: dict(pods) for name, pods in self._pods.items()}
        made._node_of = dict(self._node_of)
        return made

    def changed_since(self, version: int) -> Collection[str] | None:
        return self._changed.since(version)

    def _note(self, node_name: str) -> None:
        self._changed.add(node_name)
        self.version = self._changed.position

    def add(self, pod: PodInfo, node_name: str) -> None:
        """Nominate the pod to the node; this replaces an earlier nomination."""
        self.delete(pod.uid)
        self._node_of[pod.uid] = node_name
        self._pods.setdefault(node_name, {})[pod.uid] = pod
        self.orders.added(node_name, pod.uid)
        self._note(node_name)

    def delete(self, uid: str) -> bool:
        """Withdraw the pod's nomination; return whether there was one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return False
        pods = self._pods[node_name]
        del pods[uid]
        if not pods:
            del self._pods[node_name]
        self._note(node_name)
        return True

    def nomination(self, uid: str) -> Nomination | None:
        """Return a pod's nomination for ``put_back``, before a trial withdraws it."""
        node_name = self._node_of.get(uid)
        if node_name is None:
            return None
        pods = self._pods[node_name]
        return Nomination(pods[uid], node_name, self.orders.take(node_name, pods, uid))

    def put_back(self, nomination: Nomination | None) -> None:
        """Restore a nomination that a trial withdrew, at its old place in the order."""
        if nomination is None:
            return
        pod, node_name, number = nomination
        self.add(pod, node_name)
        self.orders.put_back(node_name, self._pods[node_name], pod.uid, number)

    def update(self, old: PodInfo | None, new: PodInfo) -> None:
        """Apply an update of a pod to its nomination.

        If neither the old nor the new status names a node, a nomination in memory remains, because
        the update may be older than the patch that writes the nomination to the status.
        """
        node_name = new.nominated_node_name
        if not node_name and (old is None or not old.nominated_node_name):
            node_name = self._node_of.get(new.uid, "")
        if node_name and self._node_of.get(new.uid) == node_name:
            pods = self._pods[node_name]
            # Only another class counts differently on the node; a mere status update leaves
            # evaluations valid.
            if pods[new.uid].cls is not new.cls:
                self._note(node_name)
            pods[new.uid] = new
        elif node_name:
            self.add(new, node_name)
        else:
            self.delete(new.uid)

    def node_of(self, uid: str) -> str:
        return self._node_of.get(uid, "")

    def pods(self, node_name: str) -> Sequence[PodInfo]:
        pods = self._pods.get(node_name)
        return tuple(pods.values()) if pods else ()

    def nodes(self) -> Collection[str]:
        return self._pods.keys()
