"""AlwaysCheckAllPredicates and GeneralPredicates: filters that collect the reasons of several.

Otherwise the first filter that rejects a node decides, and later filters do not run. With Policy's
``alwaysCheckAllPredicates`` all run; GeneralPredicates runs its four. Both are plugins that call
other plugins: a node has the reasons of all of them, and preemption cannot help if one of them says
so (kube-scheduler v1.16, ``core.podFitsOnNode``, ``predicates.GeneralPredicates``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

from podsched.config.legacy.args import AlwaysCheckAllPredicatesArgs, GeneralPredicatesArgs
from podsched.config.model import Model
from podsched.config.plugin_args import NodeAffinityArgs, NodeResourcesFitArgs
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import (
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    InputsPlugin,
    PluginFactory,
    PreBindPlan,
    PreBindPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ProjectingPlugin,
    ReservePlugin,
    ReservesSomePods,
    Traits,
    traits_of,
)
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.legacy.max_volume_count import (
    MaxAzureDiskVolumeCount,
    MaxCinderVolumeCount,
    MaxEBSVolumeCount,
    MaxGCEPDVolumeCount,
)
from podsched.legacy.no_disk_conflict import NoDiskConflict
from podsched.legacy.node_predicates import (
    CheckNodeCondition,
    CheckNodeDiskPressure,
    CheckNodeLabelPresence,
    CheckNodeMemoryPressure,
    CheckNodePIDPressure,
    PodToleratesNodeNoExecuteTaints,
)
from podsched.legacy.service_affinity import CheckServiceAffinity
from podsched.plugins.inter_pod_affinity.plugin import InterPodAffinity
from podsched.plugins.node_affinity import NodeAffinity
from podsched.plugins.node_name import NodeName
from podsched.plugins.node_ports import NodePorts
from podsched.plugins.node_resources.fit import NodeResourcesFit
from podsched.plugins.node_unschedulable import NodeUnschedulable
from podsched.plugins.node_volume_limits.plugin import NodeVolumeLimits
from podsched.plugins.pod_topology_spread.plugin import PodTopologySpread
from podsched.plugins.taint_toleration import TaintToleration
from podsched.plugins.volume_binding.plugin import VolumeBinding
from podsched.plugins.volume_zone import VolumeZone


class _AllFilters:
    """Runs all of its filters on every node."""

    name: ClassVar[str]

    def __init__(self, filters: Sequence[FilterPlugin]) -> None:
        self._filters = filters
        traits = [traits_of(plugin) for plugin in filters]
        self.traits = Traits(
            reads_only_nodes=all(t.reads_only_nodes for t in traits),
            reads_pods=any(t.reads_pods for t in traits),
            depends_on_feasible=False,
            projects_class=all(t.projects_class for t in traits),
        )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the projections of all filters; the class if one of them reads the whole pod."""
        parts: list[Hashable] = []
        for plugin in self._filters:
            if not isinstance(plugin, ProjectingPlugin):
                return pod.cls.id
            parts.append(plugin.projection(pod, cluster))
        return tuple(parts)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return tuple(
            plugin.inputs(pod, cluster)
            for plugin in self._filters
            if isinstance(plugin, InputsPlugin)
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Prepare all filters, and note which take part; the first that rejects the pod decides.

        Filters that would restrict the nodes run on all of them, so that each node has all reasons.
        """
        active = []
        for index, plugin in enumerate(self._filters):
            if isinstance(plugin, PreFilterPlugin):
                status = plugin.pre_filter(state, pod, cluster).status
                if status.skipped:
                    continue
                if not status.ok:
                    return PreFilterResult(status)
            active.append(index)
        state.data[self.name] = tuple(active)
        return PreFilterResult() if active else PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        verdicts = Verdicter(len(rows))
        for index in state.data[self.name]:
            found = self._filters[index].filter(state, pod, nodes, rows)
            for bit, reason in enumerate(found.reasons):
                verdicts.flag((found.bits >> bit & 1).astype(bool), reason.code, reason.text)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            event
            for plugin in self._filters
            if isinstance(plugin, EnqueueExtensions)
            for event in plugin.events_to_register()
        ]


class GeneralPredicates(_AllFilters):
    """NodeResourcesFit, NodeName, NodePorts and NodeAffinity, with the reasons of all four."""

    name: ClassVar[str] = "GeneralPredicates"

    def __init__(self, args: GeneralPredicatesArgs, handle: Handle) -> None:
        fit = NodeResourcesFitArgs(ignored_resources=args.ignored_resources)
        super().__init__(
            [
                NodeResourcesFit(fit, handle),
                NodeName(),
                NodePorts(None, handle),
                NodeAffinity(NodeAffinityArgs(), handle),
            ]
        )


#: The filters that AlwaysCheckAllPredicates can run, by name.
FILTERS: Final[Mapping[str, PluginFactory]] = {
    plugin.name: plugin
    for plugin in (
        NodeUnschedulable, NodeName, NodePorts, NodeAffinity, NodeResourcesFit, TaintToleration,
        NodeVolumeLimits, VolumeBinding, VolumeZone, PodTopologySpread, InterPodAffinity,
        GeneralPredicates, NoDiskConflict, PodToleratesNodeNoExecuteTaints,
        CheckNodeLabelPresence, CheckServiceAffinity, MaxEBSVolumeCount, MaxGCEPDVolumeCount,
        MaxAzureDiskVolumeCount, MaxCinderVolumeCount, CheckNodeCondition,
        CheckNodeMemoryPressure, CheckNodeDiskPressure, CheckNodePIDPressure,
    )
}  # fmt: skip


class AlwaysCheckAllPredicates(_AllFilters):
    """The filters that its arguments list, with their Reserve and PreBind."""

    name: ClassVar[str] = "AlwaysCheckAllPredicates"

    def __init__(self, args: AlwaysCheckAllPredicatesArgs, handle: Handle) -> None:
        made: list[Any] = [
            FILTERS[predicate.name](_with_ignored(predicate.decoded([]), args), handle)
            for predicate in args.predicates
        ]
        super().__init__(made)
        self._reserving: list[ReservePlugin] = [
            plugin for plugin in made if isinstance(plugin, ReservePlugin)
        ]
        self._pre_binding = [plugin for plugin in made if isinstance(plugin, PreBindPlugin)]

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Call the filters that have Reserve; the first that fails decides."""
        for plugin in self._reserving:
            status = plugin.reserve(state, pod, node_name)
            if not status.ok:
                return status
        return SUCCESS

    def reserves(self, state: CycleState, pod: PodInfo) -> bool:
        return any(
            not isinstance(plugin, ReservesSomePods) or plugin.reserves(state, pod)
            for plugin in self._reserving
        )

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        for plugin in reversed(self._reserving):
            plugin.unreserve(state, pod, node_name)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SKIP if self._preparing(state, pod, node_name) is None else SUCCESS

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan:
        """Return the plan of VolumeBinding, the only filter that may have one."""
        plugin = self._preparing(state, pod, node_name)
        return PreBindPlan() if plugin is None else plugin.pre_bind(state, pod, node_name, cluster)

    def _preparing(self, state: CycleState, pod: PodInfo, node_name: str) -> PreBindPlugin | None:
        for plugin in self._pre_binding:
            if not plugin.pre_bind_pre_flight(state, pod, node_name).skipped:
                return plugin
        return None


def _with_ignored(own: Model | None, args: AlwaysCheckAllPredicatesArgs) -> Model | None:
    """Return a filter's arguments with the resources that extenders check for it."""
    if args.ignored_resources and isinstance(own, NodeResourcesFitArgs | GeneralPredicatesArgs):
        names = tuple(dict.fromkeys((*own.ignored_resources, *args.ignored_resources)))
        return own.model_copy(update={"ignored_resources": names})
    return own
