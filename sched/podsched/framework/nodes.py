"""The cluster as plugins see it: nodes as columns, and the other objects.

Every node has a row. A *row number* indexes every column; rows of removed nodes are reused, and
``alive`` is False for free rows. The implementation is ``podsched.cache``. A *fork* (copies of a
few rows, with pods added or removed) has the same interface, so the same plugin code serves the
live cluster, a shard of it, a preemption dry run and the pass with nominated pods.

Each row of a fork is a separate scenario: row ``i`` is node ``base_rows[i]`` with its own pods
changed, while all other nodes are unchanged. So plugins that read counts over a topology domain
take the counts of the base and add ``own_delta`` of the row.
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

#: Value id of a value that no node has ever had; it equals no row's value id.
UNKNOWN = -2
#: Value id of an absent label.
ABSENT = -1

#: The annotation of a node that asks to avoid the pods of some controllers.
PREFER_AVOID_PODS = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def normalized_image_name(name: str) -> str:
    """Return the name with ":latest" if it has neither tag nor digest (ImageLocality, v1.36)."""
    return name if name.rfind(":") > name.rfind("/") else name + ":latest"


class NodeColumns(Protocol):
    """Columns of shape ``(size,)`` over all rows; read only for plugins."""

    @property
    def size(self) -> int:
        """Number of rows, removed ones included."""
        ...

    @property
    def alive(self) -> Bools:
        """False for rows of removed nodes and unused rows; their other cells are undefined."""
        ...

    @property
    def topology_version(self) -> int:
        """Changes when nodes come or go, or when their labels, taints or unschedulable change."""
        ...

    @property
    def names(self) -> Sequence[str]: ...

    def row_of(self, name: str) -> int | None: ...

    def node(self, row: int) -> v1.Node:
        """Return the node's message; plugins do not write to it."""
        ...

    def pods(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on the node, assumed ones included, by uid."""
        ...

    # Resources: cpu in milli-units, memory and the rest in whole units; unknown resources are all
    # zero.
    def allocatable(self, resource: str) -> Int64s: ...
    def requested(self, resource: str) -> Int64s: ...
    def nonzero_requested(self, resource: str) -> Int64s:
        """Return requested cpu or memory; containers that ask for nothing count 100m or 200Mi."""
        ...

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
        ...

    def taints(self, taint_set: int) -> tuple[v1.Taint, ...]: ...
    def label(self, key: str) -> Int32s:
        """Return the value ids of a label, ABSENT where the node has none.

        Built on first use, then kept current.
        """
        ...

    def value_id(self, value: str) -> int:
        """Return the id of a label value, for comparison with ``label``; it is not to be kept.

        UNKNOWN for a value that no node has.
        """
        ...

    def value(self, value_id: int) -> str: ...

    # Host ports and images.
    def used_ports(self, row: int) -> Mapping[tuple[str, str, int], int]:
        """Return the number of pods that use each (hostIP, protocol, hostPort)."""
        ...

    @property
    def rows_with_ports(self) -> Rows: ...
    def image_rows(self, image: str) -> tuple[Rows, Int64s]:
        """Return the rows that have the (normalised) image name, and its size in bytes on each."""
        ...

    # Counts over pods. ``query`` is hashable and has ``counts(pod: PodInfo) -> int``: the amount
    # that one pod adds (0 for pods it does not concern). It must depend only on the pod's class and
    # ``terminating``.
    def counter(self, query: PodQuery) -> Int64s:
        """Return, per row, the sum of ``query.counts`` over its pods.

        Built on first use, then kept current.
        """
        ...

    def counter_version(self, query: PodQuery) -> int:
        """Return a number that changes whenever a count of this query does."""
        ...

    def own_delta(self, query: PodQuery) -> Int64s | None:
        """Return, per row of a fork, its count minus its base row's; None outside a fork."""
        ...

    def terms_in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        """Return the terms of a family that any pod in the cluster has, with their queries."""
        ...

    def terms_version(self, family: TermFamily) -> int:
        """Return a number that changes whenever a term of the family appears or disappears."""
        ...

    # Forks.
    @property
    def base(self) -> NodeColumns:
        """The columns a fork was taken of; itself outside a fork."""
        ...

    @property
    def base_rows(self) -> Rows: ...
    def fork(self, rows: Rows) -> ForkedColumns: ...


class JournaledColumns(NodeColumns, Protocol):
    """The live columns, with a journal of changed rows."""

    @property
    def nodes_version(self) -> int:
        """A number that changes on every change of a node that a plugin can see."""
        ...

    @property
    def position(self) -> int:
        """A place in the journal of changed rows."""
        ...

    def changed_since(self, position: int) -> Rows | None:
        """Return the distinct rows whose node or pods changed since, ascending; None: maybe all."""
        ...

    def counter_sums(self, query: PodQuery, groups: Rows, number: int) -> Int64s:
        """Return the sums of ``counter`` over groups of rows, shape ``(number,)``.

        ``groups``: each row's group, in 0..number-1, shape ``(size,)``. Sums are kept current, so
        repeated calls with the same array need no pass over the rows.
        """
        ...

    @property
    def start_times_position(self) -> int:
        """A place in the journal of rows where start times of pods changed."""
        ...

    def start_times_changed_since(self, position: int) -> Rows | None:
        """Like ``changed_since``, for start times alone."""
        ...


class ForkedColumns(NodeColumns, Protocol):
    """Copied rows to try changes on.

    Fork row ``i`` is base row ``base_rows[i]``; a base row may occur twice.
    """

    def add_pod(self, row: int, pod: PodInfo) -> None: ...
    def remove_pod(self, row: int, pod: PodInfo) -> None: ...
    def add_copies(self, pod: PodInfo, copies: Int64s) -> None:
        """Add ``copies[i]`` pods like ``pod`` to row ``i``, all rows at once.

        They count in every column; ``pods`` does not show them.
        """
        ...


class PodQuery(Protocol):
    """A hashable count of each pod, summed per row. Equal queries share one counter.

    The count depends on the pod's class and on whether it is terminating. If it does not depend on
    requests and limits, set the attribute ``reads_requests`` to False; then it is computed once for
    all pods that differ only there. If it counts only pods with a certain label, set
    ``required_label`` to the key and value; then it is not computed for other pods.
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


#: The name of the node that an object is about, "" for none; a number from a node's objects. Equal
#: ones share an index or a column.
NodeOf = Callable[[Any], str]
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
        """Return ``of_node`` of the objects of each row's node; kept current, not to be kept."""
        ...


class ClusterView(Protocol):
    """Everything that a plugin may read: the nodes and the other objects."""

    @property
    def nodes(self) -> JournaledColumns: ...
    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object: ``get("PersistentVolumeClaim", "default", "data")``, or None.

        The namespace is "" for a kind that has none.
        """
        ...

    def list(self, kind: str, namespace: str | None = None) -> Sequence[Any]: ...
    def version(self, kind: str) -> int:
        """Return a number that changes when an object of the kind is added, changed or removed.

        "Pod" includes pending pods, so it changes all the time. A plugin that reads only pods on
        nodes should use ``counter_version`` of its query, or ``position``.
        """
        ...

    def assumed(self, kind: str) -> AssumedObjects[Any]:
        """Return the objects of a kind as plugins assume them to be; ``get`` here does not."""
        ...

    def by_node(self, kind: str, node_of: NodeOf) -> ObjectsByNode: ...
    @property
    def placement(self) -> frozenset[str] | None:
        """The names of the only nodes that members of a group may use in this try; None for all."""
        ...

    def members(self, group: str) -> Collection[PodInfo]:
        """Return the unfinished pods of a PodGroup ("namespace/name"), bound or not."""
        ...

    def nominated_pods(self, node_name: str) -> Sequence[PodInfo]: ...
    def nominated_node(self, uid: str) -> str:
        """Return the node that a pod is nominated to, or ""; may be ahead of the pod's status."""
        ...

    def nominated_nodes(self) -> Collection[str]:
        """Return the names of the nodes that have nominated pods."""
        ...

    @property
    def nominations_version(self) -> int:
        """A number that changes whenever a nomination is made, moved or withdrawn."""
        ...

    def nominations_since(self, version: int) -> Collection[str] | None:
        """Return the nodes whose nominated pods changed since that version; None: maybe all."""
        ...
