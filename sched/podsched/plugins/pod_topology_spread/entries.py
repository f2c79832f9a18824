"""The constraints of pod classes, compiled once for all classes with equal projections.

Such classes share an entry, so they also share the rows that take part.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from weakref import WeakKeyDictionary, WeakValueDictionary

from podsched.api.selectors import SelectorError
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.pod_topology_spread.constraints import (
    Constraints,
    Defaulting,
    own_constraints,
)
from podsched.plugins.pod_topology_spread.counts import Participation
from podsched.plugins.rows.topology_domains import TopologyDomains


@dataclass(eq=False, slots=True, weakref_slot=True)
class Entry:
    """The data that all classes with equal projections (``_projection``) share."""

    constraints: Constraints
    #: Unique among all entries.
    serial: int
    #: Why the pod's constraints could not be compiled; "" if they could.
    problem: str = ""
    participation: Participation | None = None
    topology: Hashable = None


@dataclass(slots=True)
class _OfClass:
    """The entry of a class.

    ``own``: the pods' specs have constraints. Otherwise the defaults apply, and the entry is valid
    at this ``version`` of them.
    """

    entry: Entry
    own: bool
    version: Hashable


class Entries:
    """The entries of all classes that are in use."""

    def __init__(self, defaulting: Defaulting) -> None:
        self._defaulting = defaulting
        self._domains = TopologyDomains()
        self._classes: WeakKeyDictionary[PodClass, _OfClass] = WeakKeyDictionary()
        self._entries: WeakValueDictionary[Hashable, Entry] = WeakValueDictionary()
        self._serial = 0
        #: The entry of pods without constraints, which most pods are.
        self._without = Entry(Constraints(""), 0)

    def of(self, pod: PodInfo, cluster: ClusterView) -> Entry:
        """Return the entry of a pod's class."""
        known = self._classes.get(pod.cls)
        if known is not None and (known.own or known.version == self._defaulting.versions(cluster)):
            return known.entry
        return self._learn(pod, cluster)

    def _learn(self, pod: PodInfo, cluster: ClusterView) -> Entry:
        """Find the constraints of a class, and the entry of all classes with equal ones."""
        own, problem = bool(pod.cls.spec.topology_spread_constraints), ""
        version = () if own else self._defaulting.versions(cluster)
        try:
            constraints = own_constraints(pod) if own else self._defaulting.of(pod, cluster)
        except SelectorError as failure:
            constraints, problem = Constraints(pod.namespace), str(failure)
        entry = self._without
        if constraints.queries or problem:
            projection = _projection(pod, constraints, problem)
            shared = self._entries.get(projection)
            if shared is None:
                self._serial += 1
                shared = self._entries[projection] = Entry(constraints, self._serial, problem)
            entry = shared
        self._classes[pod.cls] = _OfClass(entry, own, version)
        return entry

    def participation(self, entry: Entry, pod: PodInfo, nodes: NodeColumns) -> Participation:
        """Return the rows that take part in the entry's constraints, for the current topology."""
        topology = (id(nodes.base), nodes.topology_version, nodes.size)
        if entry.participation is None or entry.topology != topology:
            entry.participation = Participation(entry.constraints, pod, nodes, self._domains)
            entry.topology = topology
        return entry.participation


def _projection(pod: PodInfo, constraints: Constraints, problem: str) -> Hashable:
    """Return everything that the plugin reads of a pod that has constraints.

    Of the pod's labels, it reads only whether the selectors match them. Node affinity, node
    selector and tolerations decide which nodes take part (node inclusion policies).
    """
    cls = pod.cls
    matches = tuple(
        constraint.selector.matches(cls.labels)
        for constraint in (*constraints.hard, *constraints.soft)
    )
    affinity = cls.spec.affinity.node_affinity.SerializeToString()
    selector = frozenset(cls.spec.node_selector.items())
    tolerations = tuple(t.SerializeToString() for t in cls.spec.tolerations)
    return constraints, matches, affinity, selector, tolerations, problem
