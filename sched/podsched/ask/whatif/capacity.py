"""Count how many more pods like one fit, on which nodes, and what limits them.

There are two ways with the same result (property test). In general, pods are scheduled one after
another until one does not fit. If every filter judges a row by that row alone, the order does not
matter: then the number of pods on each row is found by bisection, for all rows at once, on forks
with copies of the pod (``add_copies``)::

    pods on a row     0   1   2   3   4   5   6      fits one more?
                      y   y   y   y   n   n   n      the row takes 4

Measured at 5,000 nodes with room for 150,000 pods: 0.1 s in place of some 10 s.

``by_group`` and ``by_zone`` sum the numbers of pods by node over groups of nodes and zones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np

from podsched.api.ephemeral_volumes import ephemeral_volumes
from podsched.api.node_labels import BETA_INSTANCE_TYPE, INSTANCE_TYPE
from podsched.api.objects import Node, Pod
from podsched.api.resources import CPU, MEMORY, allocatable_in_units
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.world import World
from podsched.cache.zones import zone_of
from podsched.config.plugins import IN_TREE_PLUGINS
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.evaluation.diagnosis import Diagnosis, distinct_statuses
from podsched.decide.evaluation.filtering import run_filters
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import ForkedColumns, Int64s
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import CountsCopies
from podsched.framework.verdicts import Rows

FIT = "NodeResourcesFit"
#: Pods scheduled at a time if the order matters.
_BATCH = 256
#: Max pods that are counted on a node.
MOST = 1_000_000
#: Max pods that are scheduled one after another, unless more are asked for: some 10 s.
MOST_IN_TURN = 10_000


@dataclass(frozen=True, slots=True)
class Limit:
    """Why some nodes take no further pod."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many more pods fit; ``by_node``: the number by node, without nodes that take none."""

    by_node: Mapping[str, int]
    #: kube-scheduler's text for the first pod that does not fit; "" if counting stopped before.
    message: str = ""
    limits: tuple[Limit, ...] = field(default=())
    failed: bool = False

    @property
    def total(self) -> int:
        """The number of pods on all nodes."""
        return sum(self.by_node.values())


def capacity(
    world: World,
    pod: Pod,
    most: int | None = None,
    *,
    in_turn: int = MOST_IN_TURN,
    placed: Callable[[int], object] = lambda count: None,
) -> Capacity:
    """Return how many pods like this fit, at most ``most``; does not change the world.

    most: None for all, or for at most ``in_turn`` if the order matters. placed: called after each
    batch with the number of pods placed in it.
    """
    with world.changes.trial():
        info = world.changes.submit(pod)
        evaluation = world.evaluation(info)
        before = evaluation.inputs.by_plugin
        outcome = world.schedule([info], preempt=False)[0]
        if not outcome.node_name:
            return _ended(world, outcome, Counter())
        # On a copy of a cluster only the outcome's pod has the node.
        first = outcome.pod
        if (found := _by_rows(world, first, before, most)) is not None:
            return found
        return _in_turn(world, first, most or in_turn, placed)


# ---------------------------------------------------------------------- one after another


def _in_turn(world: World, first: PodInfo, most: int, placed: Callable[[int], object]) -> Capacity:
    """Schedule more pods until one does not fit; the first is already placed."""
    counts = Counter([first.node_name])
    while (done := counts.total()) < most:
        batch = [_submitted(world, first, done + i) for i in range(min(_BATCH, most - done))]
        for outcome in world.schedule(batch, preempt=False):
            if not outcome.node_name:
                return _ended(world, outcome, counts)
            counts[outcome.node_name] += 1
        placed(len(batch))
    return Capacity(counts)


def _submitted(world: World, pod: PodInfo, number: int) -> PodInfo:
    """Return another pod; one with claims from templates has claims of its own."""
    # No other pod, whose claims it would find, has a name with a space.
    name, uid = f"{pod.name} {number}", f"{pod.uid}-{number}"
    if not (pod.pod.status.resource_claim_statuses or any(ephemeral_volumes(pod.pod))):
        return replace(pod, uid=uid, name=name, key=f"{pod.namespace}/{name}", node_name="")
    message = deepcopy(pod.pod)
    message.metadata.name, message.metadata.uid = name, uid
    message.ClearField("status")
    return world.changes.submit(message)


def _ended(world: World, outcome: Outcome, counts: Counter[str]) -> Capacity:
    """Return the capacity when a pod does not fit, with each node's reasons."""
    if outcome.failed:
        return Capacity(counts, outcome.message, failed=True)
    return Capacity(counts, outcome.message, _limits(world.evaluation(outcome.pod).outcome()))


def _limits(outcome: FilterOutcome) -> tuple[Limit, ...]:
    found = [
        Limit(status.plugin, tuple(status.reasons), nodes)
        for status, nodes in distinct_statuses(outcome)
    ]
    return tuple(sorted(found, key=lambda limit: (-limit.nodes, limit.plugin)))


# ---------------------------------------------------------------------- row by row


def _by_rows(
    world: World, first: PodInfo, before: Mapping[str, Hashable], most: int | None
) -> Capacity | None:
    """Return the capacity if rows can be filled independently; None if they cannot.

    The first pod has been placed; ``before`` are the plugins' inputs without it.
    """
    pod = _submitted(world, first, 0)
    evaluation = world.evaluation(pod)
    if evaluation.failure is not None or not _rows_are_independent(evaluation, pod, before):
        return None
    nodes = world.cluster.nodes
    rows = np.flatnonzero(nodes.alive)
    fits = np.zeros(len(rows), dtype=np.bool_)
    fits[np.searchsorted(rows, evaluation.feasible_rows)] = True
    try:
        more = _bisect(evaluation, pod, rows[fits], most or MOST)
        copies = np.zeros(len(rows), dtype=np.int64)
        copies[fits] = more
        by_row = zip(rows.tolist(), copies.tolist(), strict=True)
        counts = Counter({nodes.names[row]: n for row, n in by_row if n})
        counts[first.node_name] += 1
        if most is None and (more > MOST).any():
            return Capacity(counts)
        if most is not None and counts.total() > most:
            return None  # Scores decide which nodes take the first ``most`` pods.
        fork = nodes.fork(rows)
        fork.add_copies(pod, copies)
        outcome = _filtered(evaluation, pod, fork)
    except PluginFailure:
        return None
    message = Diagnosis(len(rows), evaluation.pre_filtered, outcome).fit_error()
    return Capacity(counts, message, _limits(outcome))


def _rows_are_independent(
    evaluation: ClassEvaluation, pod: PodInfo, before: Mapping[str, Hashable]
) -> bool:
    """Whether a pod affects filters only on its own row, and these work on forks."""
    if evaluation.pre_filtered.node_names is not None:
        return False
    reserving = evaluation.runtime.reserving(evaluation.state, pod)
    if not all(_counts_copies(evaluation, pod, name) for name in reserving):
        return False
    now = evaluation.inputs.by_plugin
    if FIT not in [column.named.name for column in evaluation.feasibility.columns]:
        return False  # No filter limits the number of pods on a row.
    for column in evaluation.feasibility.columns:
        name = column.named.name
        if not column.active:
            continue
        if column.named.traits.reads_pods or name not in IN_TREE_PLUGINS:
            return False
        if before.get(name) != now.get(name) and name not in reserving:
            return False
    return True


def _counts_copies(evaluation: ClassEvaluation, pod: PodInfo, name: str) -> bool:
    """Whether a plugin's Filter takes into account what it would reserve for copies of a pod."""
    [plugin] = [named.plugin for named in evaluation.runtime.filter if named.name == name]
    return isinstance(plugin, CountsCopies) and plugin.counts_copies(
        evaluation.state, pod, evaluation.cluster.nodes
    )


def _filtered(evaluation: ClassEvaluation, pod: PodInfo, fork: ForkedColumns) -> FilterOutcome:
    rows = np.arange(fork.size)
    return run_filters(evaluation.runtime, evaluation.state, pod, fork, rows, evaluation.cluster)


def _bisect(evaluation: ClassEvaluation, pod: PodInfo, rows: Rows, most: int) -> Int64s:
    """Return how many more pods fit each row, given that at least one does.

    Invariant: after ``low`` more pods a row takes another, after ``high`` it does not.
    """
    nodes = evaluation.cluster.nodes
    room = nodes.allowed_pod_number[rows] - nodes.pod_count[rows]
    low = np.zeros(len(rows), dtype=np.int64)
    high = np.minimum(np.maximum(room, 1), most + 1).astype(np.int64)
    while True:
        middle = (low + high) // 2
        asked = middle > low
        if not asked.any():
            return low + 1
        fork = nodes.fork(rows)
        fork.add_copies(pod, middle)
        fits = _filtered(evaluation, pod, fork).plugin == PASSED
        low = np.where(asked & fits, middle, low)
        high = np.where(asked & ~fits, middle, high)


# ---------------------------------------------------------------------- sums over nodes

#: Labels with the name of a node's node group or pool, as set by clouds and autoscalers.
NODE_GROUPS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    INSTANCE_TYPE,
    BETA_INSTANCE_TYPE,
)
#: The group of nodes without the label.
NO_GROUP = "<none>"


@dataclass(frozen=True, slots=True)
class Group:
    """A group of nodes: the number of nodes, and the sum of a count over them."""

    name: str
    nodes: int
    count: int


def grouping(nodes: Sequence[Node], label: str = "") -> dict[str, str]:
    """Return each node's group by the node's name.

    The group is the value of ``label``, otherwise of the first label in NODE_GROUPS that any node
    has. If no node has one, nodes of equal cpu and memory form a group.
    """
    keys = (label,) if label else NODE_GROUPS
    key = next((k for k in keys if any(node.metadata.labels.get(k) for node in nodes)), label)
    if key:
        return {n.metadata.name: n.metadata.labels.get(key) or NO_GROUP for n in nodes}
    return {node.metadata.name: _size(node) for node in nodes}


def _size(node: Node) -> str:
    amounts = allocatable_in_units(node.status.allocatable)
    return f"{amounts.get(CPU, 0) / 1000:g} cpu, {amounts.get(MEMORY, 0) / 2**30:.3g}Gi"


def by_group(groups: Mapping[str, str], counts: Mapping[str, int]) -> list[Group]:
    """Return each group with the sum of its nodes' counts, by name."""
    sizes = Counter(groups.values())
    sums: Counter[str] = Counter()
    for name, count in counts.items():
        sums[groups[name]] += count
    return [Group(name, sizes[name], sums[name]) for name in sorted(sizes)]


def by_zone(nodes: Iterable[Node], counts: Mapping[str, int]) -> list[Group]:
    """Return each zone with the sum of its nodes' counts, by name."""
    zones = {node.metadata.name: zone_of(node.metadata.labels) or NO_GROUP for node in nodes}
    return by_group(zones, counts)
