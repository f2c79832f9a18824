"""Pod groups, and the extension points that decide about a whole group.

``PodGroup`` has the parts of a PodGroup object (``scheduling.k8s.io/v1alpha2``) that decisions
read, or of a group that exists only in its members' labels.

Extension points, in the order of a group's cycle (``decide.pod_group``)::

    PlacementGenerate --> for each placement: its members, one after another, as single pods
                                   | PlacementFeasible: may the group start?
    PlacementScore    <--- yes ----|  the best placement wins
    PodGroupPostFilter <-- never --'  victims, with which it could

Source: ``schedule_one_podgroup.go`` of kube-scheduler v1.36. There GangScheduling counts members in
Permit; PlacementFeasible is v1.37's name for the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from podsched.api.objects import object_key
from podsched.api.pod_groups import label_min_count
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import Victims
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.framework.trial import Trial
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

KIND = "PodGroup"
#: The reason of a group that cannot start, and of its members that would fit.
REASON_UNSCHEDULABLE = "pod group is unschedulable"
#: Annotations of a PodGroup, named like Kueue's: the label of nodes whose value all members must
#: share, and labels whose value they should share, separated by commas, the narrowest domain first.
REQUIRED_TOPOLOGY = "podsched.io/podset-required-topology"
PREFERRED_TOPOLOGY = "podsched.io/podset-preferred-topology"
MAX_LEVELS = 8
#: The value of ``spec.disruptionMode`` for groups that are evicted as a whole.
MODE_POD_GROUP = "PodGroup"


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A group: ``key`` is "namespace/name". ``min_count``: None for the basic policy.

    ``topology_key``: the node label whose value all members must share, "" for none.
    ``preferred_topology``: labels; the members should share the value of the first one possible.
    ``evicted_whole``: preemption evicts all members or none (disruptionMode ``PodGroup``).
    ``levels``: the labels of a Topology, the widest first: nodes that share the value of one share
    the values of all before it. ``topology``: the name of the Topology.
    ``slices``: some of these levels with a size each, the largest first. The members form slices of
    this size, and each slice goes to one domain of the level.
    """

    key: str
    uid: str = ""
    min_count: int | None = None
    topology_key: str = ""
    preferred_topology: tuple[str, ...] = ()
    priority: int = 0
    evicted_whole: bool = False
    levels: tuple[str, ...] = ()
    topology: str = ""
    slices: tuple[tuple[str, int], ...] = ()

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def has_topology(self) -> bool:
        """Whether the nodes of its members depend on each other."""
        return bool(self.levels or self.topology_key or self.preferred_topology)


def stored_group(cluster: ClusterView, key: str) -> v1.PodGroup | None:
    """Return the PodGroup object with the key "namespace/name"; None if there is none."""
    namespace, _, name = key.partition("/")
    found: v1.PodGroup | None = cluster.get(KIND, namespace, name)
    return found


def pod_group(cluster: ClusterView, key: str) -> PodGroup | None:
    """Return the group of this key; None if the object does not exist."""
    found = stored_group(cluster, key)
    return label_group(cluster, key) if found is None else read_pod_group(found)


def label_group(cluster: ClusterView, key: str) -> PodGroup | None:
    """Return a group that exists only in labels of its members, without a uid; None for others.

    The members should have equal labels; those of the first member are used.
    """
    member = next(iter(cluster.members(key)), None)
    if member is None or member.pod.spec.HasField("scheduling_group"):
        return None
    return PodGroup(key, min_count=label_min_count(member.pod), priority=member.priority)


def read_pod_group(message: v1.PodGroup) -> PodGroup:
    """Return the parts of a PodGroup object that decisions read."""
    spec = message.spec
    policy = spec.scheduling_policy
    # The API allows at most one constraint.
    topology = spec.scheduling_constraints.topology
    annotations = message.metadata.annotations
    preferred = annotations.get(PREFERRED_TOPOLOGY, "").split(",")[:MAX_LEVELS]
    return PodGroup(
        object_key(message),
        message.metadata.uid,
        policy.gang.min_count if policy.HasField("gang") else None,
        topology[0].key if topology else annotations.get(REQUIRED_TOPOLOGY, ""),
        tuple(filter(None, (key.strip() for key in preferred))),
        spec.priority,
        spec.disruption_mode == MODE_POD_GROUP,
    )


class Placement(NamedTuple):
    """The nodes that a group may use in one try; None for all. ``name``: the topology domain.

    ``level``: placements of a higher level are tried only if none of a lower one is feasible.
    """

    name: str = ""
    node_names: frozenset[str] | None = None
    level: int = 0

    def rows(self, nodes: NodeColumns) -> Rows:
        """Return the rows of the nodes that are there, in no order."""
        if self.node_names is None:
            return np.flatnonzero(nodes.alive)
        found = (nodes.row_of(name) for name in self.node_names)
        return np.array([row for row in found if row is not None], dtype=np.intp)


@runtime_checkable
class PlacementGeneratePlugin(Protocol):
    """Lists the placements to try; only the first such plugin of a profile is used."""

    def generate_placements(
        self, group: PodGroup, placed: Sequence[PodInfo], cluster: ClusterView
    ) -> Sequence[Placement] | Status:
        """Return the placements by level, in the order in which they are tried, or why none exist.

        ``placed``: the group's members that have a node already.
        """


@runtime_checkable
class PlacementFeasiblePlugin(Protocol):
    """Says whether a group may start with the members that have a node."""

    def placement_feasible(self, group: PodGroup, scheduled: int) -> Status:
        """Return SUCCESS, or Wait with the reason. ``scheduled`` counts members with a node."""


@runtime_checkable
class FormsLabelGroups(Protocol):
    """A plugin that may form groups of pods that name one by other schedulers' labels."""

    label_groups: bool


def labels_name_groups(plugins: Iterable[object]) -> bool:
    """Return whether one of these plugins forms groups by other schedulers' labels."""
    return any(isinstance(one, FormsLabelGroups) and one.label_groups for one in plugins)


@runtime_checkable
class PlacementScorePlugin(Protocol):
    """Compares the feasible placements of a group."""

    def score_placements(
        self, group: PodGroup, tried: Sequence[TriedPlacement], cluster: ClusterView
    ) -> Sequence[float]:
        """Return a score from 0 to 100 for each placement."""


class TriedPlacement(NamedTuple):
    """A placement and its result.

    ``scheduled``: members with a node, including those placed earlier. ``pods``: the members placed
    now, with the name of the node of each.
    """

    placement: Placement
    scheduled: int
    pods: Collection[tuple[PodInfo, str]]


class Beside(NamedTuple):
    """Room that is kept for others during a decision: pods on nodes, and claims with devices."""

    pods: Sequence[tuple[PodInfo, str]] = ()
    claims: Sequence[v1.ResourceClaim] = ()


class Try(NamedTuple):
    """A state of the cluster in which a group is tried.

    ``without``: pods that are removed. ``beside``: pods that are added on nodes. ``claims``: claims
    that replace those of the same names. ``note`` is called with the members while they are placed,
    if the group fits. ``thorough``: if it does not fit in the order of its members, other orders,
    then any placement are tried, as for a start now; it costs much more.
    """

    without: Sequence[PodInfo]
    beside: Sequence[tuple[PodInfo, str]] = ()
    claims: Sequence[v1.ResourceClaim] = ()
    note: Callable[[Sequence[PodInfo]], object] = len
    thorough: bool = False

    def begin(self, trial: GroupTrial) -> Iterator[None]:
        """Change the cluster to this state, within a trial; yields after each change."""
        for pod in self.without:
            trial.remove(pod)
            yield
        for pod, node_name in self.beside:
            trial.assume(pod, node_name)
            yield
        for claim in self.claims:
            trial.put("ResourceClaim", claim)
            yield


class Later(NamedTuple):
    """The result that a group fits later, once some pods have ended by themselves."""


#: A generator. It yields pods without which the group is to be tried, or a state to try it in, and
#: receives whether the group fits then; or None, where other tasks may run. It returns the victims,
#: or ``Later``, or why neither.
VictimSearch = Generator[Sequence[PodInfo] | Try | None, bool | None, Victims | Later | Status]


@runtime_checkable
class PodGroupPostFilterPlugin(Protocol):
    """Chooses victims for a group that does not fit."""

    def search_victims(
        self, group: PodGroup, members: Sequence[PodInfo], cluster: ClusterView
    ) -> VictimSearch:
        """Search for victims in the whole cluster; see ``VictimSearch``."""

    def member_message(self, group: PodGroup) -> str:
        """Return PostFilter's message for a single member that fits no node."""


class GroupTrial(Trial, Protocol):
    """The changes that a decision for a group of pods may make, with nested trials."""

    def forget(self, pod: PodInfo) -> None:
        """End the assumption of a pod on its node."""

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod, as preemption would."""

    def put(self, kind: str, message: Any) -> None:
        """Add or replace an object that is neither a pod nor a node."""

    def restrict(self, node_names: frozenset[str] | None) -> None:
        """Allow pods only on these nodes; None for all."""

    def inner(self) -> GroupTrial:
        """Begin a trial inside of this one."""

    def commit(self) -> None:
        """Keep the changes of this trial, as a part of the outer one."""

    def undoing(self) -> Iterator[None]:
        """Undo the changes of this trial, and yield after each; before a large rollback."""

    def roll_back(self) -> None:
        """Undo the changes of this trial."""

    def __enter__(self) -> GroupTrial: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Roll back the trial if it was not committed."""
