"""The cluster as plugins see it: nodes as columns, and all other objects.

A *column* is a NumPy array with one cell per node, such as the allocatable cpu. Every node has a
row; its *row number* indexes every column. Rows of removed nodes are reused, and ``alive`` is False
for free rows. The implementation is ``podsched.cache``.

A *fork* has copies of a few rows, on which pods can be added and removed. It has the same
interface, so the same plugin code serves the live cluster, a shard of it, a preemption dry run and
the filter pass with nominated pods. Each row of a fork is a separate scenario: row ``i`` is node
``base_rows[i]`` with its own pods changed, while all other nodes are unchanged. So plugins that
read counts over a topology domain take the counts of the base and add ``own_delta`` of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from podsched.framework.assumed_objects import AssumedObjects
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

Int64s = NDArray[np.int64]
Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]

#: Value id of a value that no node has; it equals no row's value id.
UNKNOWN = -2
#: Value id of an absent label.
ABSENT = -1

#: The annotation of a node that asks to avoid the pods of some controllers.
PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def normalized_image_name(name: str) -> str:
    """Return the name with ":latest" if it has neither tag nor digest (ImageLocality, v1.36)."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"


class NodeColumns(Protocol):
    """The nodes as columns of shape ``(size,)``; plugins only read them."""

    @property
    def size(self) -> int:
        """Number of rows, removed ones included."""

    @property
    def alive(self) -> Bools:
        """False for rows of removed nodes and unused rows; their other cells are undefined."""

    @property
    def topology_version(self) -> int:
        """A number that changes when nodes are added, removed, relabelled, tainted or cordoned."""

    @property
    def names(self) -> Sequence[str]: ...

    def row_of(self, name: str) -> int | None: ...

    def node(self, row: int) -> v1.Node:
        """Return the node's message; plugins do not write to it."""

    def pods(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on the node, assumed ones included, by uid."""

    # Resources: cpu in milli-units, memory and the rest in whole units; unknown resources are all
    # zero.
    def allocatable(self, resource: str) -> Int64s: ...
    def requested(self, resource: str) -> Int64s: ...
    def nonzero_requested(self, resource: str) -> Int64s:
        """Return requested cpu or memory; containers without requests count 100m or 200Mi."""

    @property
    def allowed_pod_number(self) -> Int64s: ...
    @property
    def pod_count(self) -> Int64s: ...

    # Node objects.
    @property
    def unschedulable(self) -> Bools: ...
    @property
    def taint_set(self) -> Int32s:
        """Id of the row's set of taints; ``taints(id)`` has them."""

    def taints(self, taint_set: int) -> tuple[v1.Taint, ...]: ...
    def label(self, key: str) -> Int32s:
        """Return the value ids of a label, ABSENT where the node has none.

        Built on first use, then kept current.
        """

    def value_id(self, value: str) -> int:
        """Return the id of a label value, for comparison with ``label``.

        An id that no row has, such as UNKNOWN, for a value that no node has. Do not keep ids: they
        change when nodes do, and differ between processes.
        """

    def value(self, value_id: int) -> str: ...

    # Host ports and images.
    def used_ports(self, row: int) -> Mapping[tuple[str, str, int], int]:
        """Return the number of pods that use each (hostIP, protocol, hostPort)."""

    @property
    def rows_with_ports(self) -> Rows: ...
    def image_rows(self, image: str) -> tuple[Rows, Int64s]:
        """Return the rows that have the (normalised) image name, and its size in bytes on each."""

    # Counts over pods; see ``PodQuery``.
    def counter(self, query: PodQuery) -> Int64s:
        """Return, per row, the sum of ``query.counts`` over its pods.

        Built on first use, then kept current.
        """

    def own_delta(self, query: PodQuery) -> Int64s | None:
        """Return, per row of a fork, its count minus its base row's; None outside a fork."""

    def terms_in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        """Return the terms of a family that any pod in the cluster has, with their queries."""

    # Forks.
    @property
    def base(self) -> NodeColumns:
        """The columns that a fork was made from; the columns themselves if they are not a fork."""

    @property
    def base_rows(self) -> Rows: ...
    def fork(self, rows: Rows) -> ForkedColumns: ...


class ChangedRows(Protocol):
    """A journal of changed rows."""

    @property
    def position(self) -> int:
        """The current position in the journal."""

    def changed_since(self, position: int) -> Rows | None:
        """Return the distinct rows that changed since, ascending; None: maybe all."""


class JournaledColumns(NodeColumns, ChangedRows, Protocol):
    """The live columns; a row changes with its node and its pods."""

    @property
    def nodes_version(self) -> int:
        """A number that changes on every change of a node that a plugin can see."""

    @property
    def node_changes(self) -> int:
        """The number of these changes, and of those that undid them: it never returns.

        For results that are written in place, also in a trial.
        """

    @property
    def ordered_rows(self) -> Rows:
        """The rows that have a node, in the order in which a sample of nodes is searched."""

    def counter_sums(self, query: PodQuery, groups: Rows, number: int) -> Int64s:
        """Return the sums of ``counter`` over groups of rows, shape ``(number,)``.

        ``groups``: each row's group, in 0..number-1, shape ``(size,)``. Sums are kept current, so
        repeated calls with the same array need no pass over the rows.
        """

    def counter_version(self, query: PodQuery) -> int:
        """Return a number that changes whenever a count of this query does."""

    def terms_version(self, family: TermFamily) -> int:
        """Return a number that changes whenever a term of the family appears or disappears."""

    @property
    def start_times(self) -> ChangedRows:
        """The rows where start times of pods changed, and nothing else."""


class ForkedColumns(NodeColumns, Protocol):
    """A fork: copied rows on which pods can be added and removed.

    Fork row ``i`` is base row ``base_rows[i]``; a base row may occur several times.
    """

    def add_pod(self, row: int, pod: PodInfo) -> None: ...
    def remove_pod(self, row: int, pod: PodInfo) -> None: ...
    def add_copies(self, pod: PodInfo, copies: Int64s) -> None:
        """Add ``copies[i]`` pods like ``pod`` to row ``i``, all rows at once.

        They count in every column; ``pods`` does not show them.
        """

    def copies(self) -> Int64s:
        """Return how many pods ``add_copies`` has added to each row."""


class PodQuery(Protocol):
    """A function of a pod that returns a number; a counter has the sums per row.

    For example whether a selector matches the pod, 0 or 1. Queries are hashable, and equal queries
    share one counter. The number may depend only on the pod's class and on whether it is
    terminating. If it does not depend on requests and limits, set the attribute ``reads_requests``
    to False; then it is computed once for all pods that differ only there (with a hundred spreading
    templates, that was a seventh of a decision). If only pods with a certain label count, set
    ``required_label`` to its key and value; then it is not computed for other pods (a new class
    asked a hundred queries, which took 0.1 ms).
    """

    def counts(self, pod: PodInfo) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...


class TermFamily(Protocol):
    """A family of terms of pods, such as required anti-affinity.

    ``terms(pod)`` returns a pod's terms, which are hashable and depend only on its class. For each
    distinct term the columns count the pods that have it and list it in ``terms_in_cluster``.
    ``reads_requests`` is the same as in ``PodQuery``.
    """

    name: str

    def terms(self, pod: PodInfo) -> Sequence[Hashable]: ...


#: Returns the name of the node that an object is about, "" for none. Equal functions share an
#: index.
NodeOf = Callable[[Any], str]
#: Returns a number for a node from its objects. Equal functions share a column.
OfNode = Callable[[Collection[Any]], int]


class ObjectsByNode(Protocol):
    """The objects of one kind by the node that they belong to, such as CSINodes.

    If an object changes, its node's row counts as changed and is evaluated again. A plugin whose
    Filter or Score reads a kind only in this way need not name its version in ``inputs``.
    """

    @property
    def nodes(self) -> Collection[str]: ...
    def of(self, node_name: str) -> Collection[Any]: ...
    def column(self, of_node: OfNode) -> Int64s:
        """Return, for each row, the result of ``of_node`` for the objects of its node.

        The column is kept current. Do not keep the array: it is replaced when nodes change.
        """


class Nominations(Protocol):
    """The nominated pods: for these, preemption makes room on a node."""

    @property
    def version(self) -> int:
        """A number that grows by at least one for each node that ``changed_since`` returns."""

    def changed_since(self, version: int) -> Collection[str] | None:
        """Return the nodes whose nominated pods changed since that version; None: maybe all."""

    def pods(self, node_name: str) -> Sequence[PodInfo]: ...
    def nodes(self) -> Collection[str]: ...
    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or ""; its status may not show it yet."""


class ClusterView(Protocol):
    """Everything that a plugin may read: the nodes and the other objects."""

    @property
    def nodes(self) -> JournaledColumns: ...
    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object: ``get("PersistentVolumeClaim", "default", "data")``, or None.

        The namespace is "" for a kind that has none.
        """

    def list(self, kind: str, namespace: str | None = None) -> Sequence[Any]: ...
    def version(self, kind: str) -> int:
        """Return a number that changes when an object of the kind is added, changed or removed.

        "Pod" includes pending pods, so it changes all the time. A plugin that reads only pods on
        nodes should use ``counter_version`` of its query, or ``position``.
        """

    def assumed(self, kind: str) -> AssumedObjects[Any]:
        """Return the objects of a kind with the changes that plugins assume, unlike ``get``."""

    def by_node(self, kind: str, node_of: NodeOf) -> ObjectsByNode:
        """Return the objects of a kind by the node that ``node_of`` returns for each."""

    @property
    def open_trial(self) -> object | None:
        """The trial that is open, which may undo all that is assumed now; None if there is none."""

    @property
    def placement(self) -> frozenset[str] | None:
        """The names of the nodes that members of a group may use in this try; None for all."""

    def members(self, group: str) -> Collection[PodInfo]:
        """Return the unfinished pods of a PodGroup ("namespace/name"), bound or not."""

    @property
    def nominator(self) -> Nominations: ...
