"""NodeResourcesFit: a node fits if the pod's requests are free on it.

Rules: kube-scheduler v1.36 ``framework/plugins/noderesources/fit.go``. The scores are in
``scoring_strategies``. A DeviceClass may provide an extended resource. Such a resource is compared
only on nodes that have it in ``status.allocatable``; on all others DynamicResources allocates
devices.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from podsched.api.quantity import as_int64
from podsched.api.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from podsched.config.plugin_args import NodeResourcesFitArgs, ResourceSpec
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.nodes import ClusterView, JournaledColumns, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    CycleState,
    Handle,
    PreFilterResult,
    ProvidedDevices,
    Remedy,
    Traits,
)
from podsched.framework.pod_groups import PodGroup, TriedPlacement
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import (
    FEW_ROWS,
    Reason,
    Rows,
    Scores,
    Verdicter,
    Verdicts,
    all_pass,
)
from podsched.plugins.node_resources.compared_requests import ComparedRequests
from podsched.plugins.node_resources.fit_events import FitEvents
from podsched.plugins.node_resources.joint_choice import JointChoice
from podsched.plugins.node_resources.node_amounts import NodeAmounts, SharedAmounts, exact_amounts
from podsched.plugins.node_resources.resource_amounts import (
    NATIVE,
    ResourceColumn,
    ScoredDevices,
    is_scalar,
    resource_columns,
)
from podsched.plugins.node_resources.scoring_strategies import (
    least_allocated,
    least_allocated_exactly,
    most_allocated,
    strategy_of,
)

REASON_PODS = "Too many pods"
REASON_INSUFFICIENT = "Insufficient {}"
_TOO_MANY_PODS = Reason(Code.UNSCHEDULABLE, REASON_PODS)
#: With up to this many requested resources, each reason has its own bit in the 64-bit words of
#: ``Verdicts``: two per resource, and one for the number of pods.
_MOST_WANTED = 31

#: Units in the texts of requirements; amounts of other resources have no unit.
_UNITS = {CPU: "m", MEMORY: "bytes", EPHEMERAL_STORAGE: "bytes"}


class NodeResourcesFit:
    """Filter compares requests with free resources, Score applies the configured strategy."""

    name: ClassVar[str] = "NodeResourcesFit"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
        reads_labels=False,
        reads_volumes=False,
        remedies=frozenset({Remedy.REQUESTS}),
    )

    #: Keys of entries in CycleState; the key of Filter's requests is the plugin's name. This one
    #: has Score's requests.
    score_key: ClassVar[str] = "NodeResourcesFit/score"
    #: Score's counts of devices.
    scored_devices_key: ClassVar[str] = "NodeResourcesFit/scored devices"
    #: Filter's requests for resources that devices may provide; absent if there are none.
    devices_key: ClassVar[str] = "NodeResourcesFit/devices"

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        self._compared = ComparedRequests(args.ignored_resources, args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._strategy = strategy_of(args.scoring_strategy)
        scored = sorted((resource.name, resource.weight) for resource in self._resources)
        #: Whether Score is the default: LeastAllocated over cpu and memory with equal weights. Only
        #: this has fast passes over whole columns and a compiled loop.
        self.is_plain = scored == [(CPU, 1), (MEMORY, 1)] and self._strategy is least_allocated
        self._amounts = SharedAmounts()
        self._cluster = handle.cluster
        self._scored = ScoredDevices(self._resources)

    def leave_to(self, devices: ProvidedDevices) -> None:
        """Leave the resources that ``devices`` provides to it, and count its devices in scores."""
        self._compared.devices = devices
        self._scored.leave_to(devices)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the requests as Filter counts them, and as Score does."""
        return pod.cls.amounts.key

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return FIXED_INPUTS, unless devices may provide a resource that the pod requests."""
        if not self._compared.may_be_devices(pod.cls):
            return FIXED_INPUTS
        return cluster.version("DeviceClass"), self._scored.version(pod.cls, cluster)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Store the (resource, amount) pairs that Filter compares."""
        wanted = self._compared.wanted(pod.cls)
        # The state may be that of an earlier PreFilter, or a copy of another pod's.
        state.data.pop(self.devices_key, None)
        devices = self._compared.left(pod.cls, cluster)
        if devices:
            state.data[self.devices_key] = tuple(pair for pair in wanted if pair[0] in devices)
            wanted = tuple(pair for pair in wanted if pair[0] not in devices)
        state.data[self.name] = wanted
        return PreFilterResult()

    def compared_requests(self, pod: PodInfo) -> Mapping[str, int]:
        """Return the resources that Filter compares on all nodes, and the requests for them."""
        left = self._compared.left(pod.cls, self._cluster)
        return {name: n for name, n in self._compared.wanted(pod.cls) if name not in left}

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject rows where a resource is short, with a reason for each such resource.

        The reason is unresolvable if the request exceeds the node's allocatable.
        """
        wanted, devices = state.data[self.name], state.data.get(self.devices_key, ())
        live = None if devices else self._amounts.known(nodes)
        if live is not None and _fit_everywhere(wanted, live, rows):
            return all_pass(len(rows))
        if not devices and len(rows) <= FEW_ROWS and len(wanted) <= _MOST_WANTED:
            return _filter_few(wanted, nodes, rows)
        verdicts = Verdicter(len(rows))
        full = nodes.pod_count[rows] >= nodes.allowed_pod_number[rows]
        verdicts.flag(full, Code.UNSCHEDULABLE, REASON_PODS)
        for resource, amount in (*wanted, *devices):
            allocatable = nodes.allocatable(resource)[rows]
            short = amount > allocatable - nodes.requested(resource)[rows]
            if (resource, amount) in devices:
                short &= allocatable > 0
            if not short.any():
                continue
            reason = REASON_INSUFFICIENT.format(resource)
            never = amount > allocatable
            verdicts.flag(short & never, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
            verdicts.flag(short & ~never, Code.UNSCHEDULABLE, reason)
        return verdicts.done()

    def filter_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Verdicts:
        """Filter all rows.

        First compares the requests with the columns of free resources, to find the rows on which
        anything is short. Only for these rows, usually few, it computes the reasons.
        """
        if self.devices_key in state.data:
            return self.filter(state, pod, nodes, np.arange(nodes.size))
        live = self._amounts.of(nodes)
        if _fits(state.data[self.name], live.least()):
            return all_pass(0)
        cpu, memory, pods = live.room
        short = pods <= 0
        for resource, amount in state.data[self.name]:
            if resource == CPU:
                short |= cpu < amount
            elif resource == MEMORY:
                short |= memory < amount
            else:
                free = nodes.allocatable(resource) - nodes.requested(resource)
                short |= (free < amount) & nodes.alive
        rows = np.flatnonzero(short)
        if not len(rows):
            return all_pass(0)
        verdicts = self.filter(state, pod, nodes, rows)
        bits = np.zeros(nodes.size, dtype=np.uint64)
        bits[rows] = verdicts.bits
        return Verdicts(bits, verdicts.reasons)

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return each requested resource with its free amount, and the same for the pod count."""
        found = []
        for resource, amount in state.data[self.name]:
            free = nodes.allocatable(resource)[rows] - nodes.requested(resource)[rows]
            wanted = np.full(len(rows), amount)
            found.append(Requirement(resource, _UNITS.get(resource, ""), wanted, free))
        for resource, amount in state.data.get(self.devices_key, ()):
            there = nodes.allocatable(resource)[rows]
            free = there - nodes.requested(resource)[rows]
            wanted = np.where(there > 0, amount, 0)
            found.append(Requirement(resource, "", wanted, np.where(there > 0, free, 0)))
        room = nodes.allowed_pod_number[rows] - nodes.pod_count[rows]
        return [*found, Requirement(PODS, "", np.ones(len(rows), dtype=np.int64), room)]

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Store the pod's requests; containers without requests count 100m cpu, 200Mi memory."""
        state.data[self.score_key] = pod.cls.amounts.scored
        state.data[self.scored_devices_key] = self._scored.counts(pod.cls, cluster)
        return SUCCESS

    def joint_choice(
        self, filters: Mapping[str, object], scores: Mapping[str, tuple[object, int]]
    ) -> JointChoice | None:
        """Return the compiled loop for this plugin and NodeResourcesBalancedAllocation.

        None without numba, or if the profile's plugins or their arguments are not the default ones.
        """
        return JointChoice.of(self, filters, scores) if self.is_plain else None

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return the scores of the configured strategy, 0 to 100."""
        requests = state.data[self.score_key]
        live = self._amounts.known(nodes) if self.is_plain else None
        if live is not None and live.exact and (wanted := exact_amounts(requests)) is not None:
            allocatable, used = live.allocatable.take(rows, 1), live.nonzero.take(rows, 1)
            return least_allocated_exactly(allocatable, used, wanted)
        devices = state.data[self.scored_devices_key]
        columns = resource_columns(
            nodes, rows, self._resources, requests, nonzero=True, devices=devices
        )
        if not columns:
            return np.zeros(len(rows), dtype=np.int64)
        return self._strategy(columns)

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Score all rows, with a faster way for the default strategy."""
        requests: Mapping[str, int] = state.data[self.score_key]
        live = self._amounts.of(nodes) if self.is_plain else None
        if live is not None and live.exact and (wanted := exact_amounts(requests)) is not None:
            return least_allocated_exactly(live.allocatable, live.nonzero, wanted)
        return self.score(state, pod, nodes, np.arange(nodes.size))

    def score_placements(
        self, group: PodGroup, tried: Sequence[TriedPlacement], cluster: ClusterView
    ) -> Sequence[float]:
        """Return the used percentage of each placement's nodes.

        As in kube-scheduler v1.36, it is MostAllocated over the sums of each placement's nodes for
        every scoring strategy, and is not normalised.
        """
        nodes = cluster.nodes
        rows = [one.placement.rows(nodes) for one in tried]
        columns = [_column(nodes, tried, rows, resource) for resource in self._resources]
        scores: list[float] = most_allocated(columns).tolist()
        return scores

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for events that free resources on a node (``fit_events``)."""
        return FitEvents(self._compared, self._cluster).registrations()


def _filter_few(wanted: Sequence[tuple[str, int]], nodes: NodeColumns, rows: Rows) -> Verdicts:
    """Return the result of ``filter`` for a few rows, computed cell by cell.

    Filtering with nominated pods and the dry runs of preemption often concern one or two rows, for
    which NumPy's calls would take longer.
    """
    numbers = rows.tolist()
    count, most = nodes.pod_count, nodes.allowed_pod_number
    words = [int(count.item(row) >= most.item(row)) for row in numbers]
    reasons = [_TOO_MANY_PODS] if any(words) else []
    for resource, amount in wanted:
        there, used = nodes.allocatable(resource), nodes.requested(resource)
        short = [
            (place, amount > there.item(row))
            for place, row in enumerate(numbers)
            # ``item`` returns Python's integers, which do not wrap around like Go's and NumPy's.
            if amount > as_int64(there.item(row) - used.item(row))
        ]
        if not short:
            continue
        for reason, never in zip(_insufficient(resource), (True, False), strict=True):
            mine = [place for place, is_never in short if is_never is never]
            if mine:
                for place in mine:
                    words[place] |= 1 << len(reasons)
                reasons.append(reason)
    return Verdicts(np.array(words, dtype=np.uint64), tuple(reasons))


@functools.lru_cache(1024)
def _insufficient(resource: str) -> tuple[Reason, Reason]:
    """Return the two reasons for a short resource: unresolvable, and unschedulable for now."""
    text = REASON_INSUFFICIENT.format(resource)
    never = Reason(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
    return never, Reason(Code.UNSCHEDULABLE, text)


def _fit_everywhere(wanted: Sequence[tuple[str, int]], live: NodeAmounts, rows: Rows) -> bool:
    """Return True if the pod fits on all of the rows; False if that is unknown.

    On most clusters most pods fit on nearly all nodes, so it compares the requests with lower
    bounds of the free resources, the cheapest bound first.
    """
    return (
        not len(rows)
        or _fits(wanted, live.least())
        # For a few rows, filtering them costs no more than computing the minimums again.
        or (
            len(rows) > FEW_ROWS
            and (
                _fits(wanted, live.least_again())
                or _fits(wanted, live.room.take(rows, 1).min(axis=1).tolist())
            )
        )
    )


def _fits(wanted: Iterable[tuple[str, int]], free: Sequence[int]) -> bool:
    """Return whether the pod fits into the free (cpu, memory, number of pods).

    Return False for a pod that requests any other resource.
    """
    cpu, memory, pods = free
    for name, amount in wanted:
        if amount > (cpu if name == CPU else memory if name == MEMORY else -1):
            return False
    return pods > 0


def _column(
    nodes: NodeColumns,
    tried: Sequence[TriedPlacement],
    rows: Sequence[Rows],
    resource: ResourceSpec,
) -> ResourceColumn:
    """Return the sums of a resource over the nodes of each placement.

    As in the scores of single pods, nodes without the resource do not count; and resources other
    than cpu, memory and ephemeral storage count only if members request them.
    """
    name = resource.name
    source = nodes.nonzero_requested(name) if name in (CPU, MEMORY) else nodes.requested(name)
    allocatable = nodes.allocatable(name)
    source = np.where(allocatable == 0, 0, source)
    used = np.array([source[some].sum() for some in rows], dtype=np.int64)
    added = np.array(
        [sum(pod.cls.amounts.scored.get(name, 0) for pod, _ in one.pods) for one in tried],
        dtype=np.int64,
    )
    total = np.array([allocatable[some].sum() for some in rows], dtype=np.int64)
    counts = name in NATIVE or (added > 0) & is_scalar(name)
    return ResourceColumn(resource.weight, used, used + added, np.where(counts, total, 0))
