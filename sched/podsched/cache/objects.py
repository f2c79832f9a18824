"""The state of the cluster that plugins read: nodes, pods and all other objects, with versions.

``ClusterState`` implements ``framework.nodes.ClusterView``. Objects are kept by kind, namespace
and name; a kind's version changes with every change of one of its objects. Non-goal: which pods
count on which node; ``Cache`` keeps that.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from podsched.cache.assumed_objects import AssumedKind
from podsched.cache.columns import Columns
from podsched.cache.nominator import Nominator
from podsched.cache.objects_by_node import ObjectsByNode
from podsched.cache.open_trial import OpenTrial
from podsched.cache.ordering import Orders
from podsched.cache.versions import Version, Versions
from podsched.framework.nodes import NodeOf
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1

_NOTHING: Final[dict[str, Any]] = {}


class KnownPods:
    """The pods that are not finished, bound or not, by "namespace/name" and by PodGroup."""

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
        # Labels may name the group, and they may change.
        if (before := self.by_key.get(pod.key)) is not None and before.group != pod.group:
            self.delete(pod.key)
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


class _Kind:
    """The objects of one kind by namespace ("" if the kind has none) and name.

    ``lists`` keeps the results of ``list`` until the next change, because plugins ask for the same
    few lists for every pod.
    """

    __slots__ = ("by_namespace", "by_node", "lists", "version")

    def __init__(self) -> None:
        #: The indexes that plugins have asked for. ``copy`` leaves them out, because they belong to
        #: the columns of this cluster.
        self.by_node: dict[NodeOf, ObjectsByNode] = {}
        self.by_namespace: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.lists: dict[str | None, tuple[Any, ...]] = {}

    def copy(self) -> _Kind:
        made = _Kind()
        made.by_namespace = {name: dict(group) for name, group in self.by_namespace.items()}
        made.version = self.version
        return made

    def changed(self, versions: Versions, old: Any | None, new: Any | None) -> None:
        versions.change(self)
        self.lists.clear()
        for found in self.by_node.values():
            found.replace(old, new)

    def list(self, namespace: str | None) -> tuple[Any, ...]:
        found = self.lists.get(namespace)
        if found is None:
            if namespace is None:
                groups = self.by_namespace.values()
                found = tuple(obj for group in groups for obj in group.values())
            else:
                found = tuple(self.by_namespace.get(namespace, _NOTHING).values())
            self.lists[namespace] = found
        return found


class ClusterState:
    """The nodes, the pods and all other objects; plugins read it, ``Cache`` writes it."""

    def __init__(self, columns: Columns | None = None) -> None:
        self.columns = columns if columns is not None else Columns()
        #: ``columns`` under the name that ``ClusterView`` gives it.
        self.nodes = self.columns
        self.nominator = Nominator()
        self.known_pods = KnownPods(self.columns.versions)
        #: Every pod that is not finished, bound or not, by "namespace/name".
        self.pods: Mapping[str, PodInfo] = self.known_pods.by_key
        self._kinds: dict[str, _Kind] = {}
        self._objects = Version()
        #: The kinds that plugins assume objects of, by name.
        self.assumed_kinds: dict[str, AssumedKind] = {}
        #: The order of each node's pods, and of objects, while a trial is open.
        self.orders = Orders()
        #: The only nodes that pods may use in a trial; None for all.
        self.placement: frozenset[str] | None = None
        #: The innermost trial that is open.
        self.open_trial: OpenTrial | None = None

    def copy(self) -> ClusterState:
        """Return the same cluster to try changes on; the objects themselves are shared."""
        made = ClusterState(self.columns.copy())
        made.nominator = self.nominator.copy()
        made.known_pods = self.known_pods.copy(made.columns.versions)
        made.pods = made.known_pods.by_key
        made._kinds = {name: kind.copy() for name, kind in self._kinds.items()}
        made._objects.version = self._objects.version
        made.assumed_kinds = {name: kind.copy(made) for name, kind in self.assumed_kinds.items()}
        return made

    def members(self, group: str) -> Collection[PodInfo]:
        """Return the unfinished pods of a PodGroup ("namespace/name"), bound or not."""
        return self.known_pods.members(group)

    def put(self, kind: str, message: Any) -> None:
        """Add or replace an object of any kind but Pod and Node."""
        known = self._kinds.setdefault(kind, _Kind())
        meta = message.metadata
        group = known.by_namespace.setdefault(meta.namespace, {})
        # A replaced object keeps its place in the order.
        if meta.name not in group:
            self.orders.added((kind, meta.namespace), meta.name)
        old, group[meta.name] = group.get(meta.name), message
        self._changed(kind, meta, old, message)

    def _changed(self, kind: str, meta: v1.ObjectMeta, old: Any | None, new: Any | None) -> None:
        if (assumed := self.assumed_kinds.get(kind)) is not None:
            assumed.note(meta.namespace, meta.name)
        versions = self.columns.versions
        self._kinds[kind].changed(versions, old, new)
        versions.change(self._objects)

    def by_node(self, kind: str, node_of: NodeOf) -> ObjectsByNode:
        """Return the objects of a kind by the node that ``node_of`` gives for each."""
        known = self._kinds.setdefault(kind, _Kind())
        found = known.by_node.get(node_of)
        if found is None:
            made = ObjectsByNode(self.columns, node_of, known.list(None))
            found = known.by_node[node_of] = made
        return found

    def assumed(self, kind: str) -> AssumedKind:
        """Return the objects of a kind as plugins assume them to be."""
        found = self.assumed_kinds.get(kind)
        if found is None:
            found = self.assumed_kinds[kind] = AssumedKind(self, kind)
        return found

    def assumptions_changed(self, kind: AssumedKind) -> None:
        """Change the versions because an object of a kind was assumed or restored."""
        versions = self.columns.versions
        versions.change(kind)
        versions.change(self._objects)

    def ordered_objects(self, kind: str, namespace: str) -> dict[str, Any]:
        """Return a kind's objects of a namespace by name, to put them into another order."""
        known = self._kinds.get(kind)
        return _NOTHING if known is None else known.by_namespace.get(namespace, _NOTHING)

    def delete(self, kind: str, namespace: str, name: str) -> bool:
        """Remove an object; return whether it was there."""
        known = self._kinds.get(kind)
        group = known.by_namespace.get(namespace) if known else None
        if known is None or group is None or name not in group:
            return False
        old = group.pop(name)
        # The kind stays even if it is empty, with its version and its indexes.
        if not group:
            del known.by_namespace[namespace]
        self._changed(kind, old.metadata, old, None)
        return True

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        known = self._kinds.get(kind)
        if known is not None:
            return known.by_namespace.get(namespace, _NOTHING).get(name)
        if kind == "Node":
            row = self.columns.row_of(name)
            return None if row is None else self.columns.node(row)
        if kind == "Pod":
            pod = self.pods.get(f"{namespace}/{name}")
            return None if pod is None else pod.pod
        return None

    def list(self, kind: str, namespace: str | None = None) -> Sequence[Any]:
        if kind == "Node":
            return [self.columns.node(row) for row in self.columns.node_table.live_rows.tolist()]
        if kind == "Pod":
            return [p.pod for p in self.pods.values() if namespace in (None, p.namespace)]
        known = self._kinds.get(kind)
        return () if known is None else known.list(namespace)

    def version(self, kind: str) -> int:
        """Return a number that changes with every change of an object of the kind.

        Node's does not change on mere heartbeats. Pod's changes with pending pods and with pods on
        nodes, including assumed ones.
        """
        if kind == "Node":
            return self.columns.nodes_version
        if kind == "Pod":
            # Two numbers side by side. Their sum could stay the same while both change.
            return self.columns.position << 64 | self.known_pods.changes.version
        known = self._kinds.get(kind)
        return 0 if known is None else known.version

    @property
    def stamp(self) -> tuple[int, int, int, int]:
        """A value that changes with every change that a decision may depend on.

        What-if questions and projections keep results as long as it stays the same.
        """
        objects, nominator = self._objects.version, self.nominator.version
        return self.columns.position, self.known_pods.changes.version, nominator, objects

    @property
    def stamp_beside_pods(self) -> tuple[int, int, int, int]:
        """Like ``stamp``, but it does not change with pods that have no affinity terms.

        So projections that do not read the existing pods (``Traits.projects_placed_pods``) stay
        valid while such pods come and go.
        """
        terms = self.columns.pod_table.counters.terms.all_terms.version
        return self.columns.nodes_version, terms, self.nominator.version, self._objects.version
