"""One plugin on a small cluster: what it says of each node, and of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.config.plugins import IN_TREE_PLUGINS
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from podsched.framework.plugin import CycleState, Handle, PreFilterResult, ScoreExtensions
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.v1 import objects_pb2 as v1

P = TypeVar("P")

CLASSES = PodClasses()


def info(pod: v1.Pod) -> PodInfo:
    """The scheduler's view of a pod."""
    return make_pod_info(pod, CLASSES)


def cluster(*nodes: v1.Node, pods: Sequence[v1.Pod] = ()) -> ClusterState:
    """A cluster of nodes, with pods on the nodes they name."""
    state = ClusterState()
    for node in nodes:
        state.columns.add_node(node)
    for pod in pods:
        row = state.columns.row_of(pod.spec.node_name)
        assert row is not None
        state.columns.pod_table.add(row, info(pod))
    return state


def made(plugin: Callable[[Any, Handle], P], state: ClusterState | None = None, **args: Any) -> P:
    """The plugin as a profile makes it, on the cluster, with these arguments."""
    model = IN_TREE_PLUGINS[plugin.name].args  # type: ignore[attr-defined]
    return plugin(model and model(**args), SimulatedHandle(state or ClusterState()))


def pre_filtered(plugin: Any, pod: v1.Pod, state: ClusterState) -> PreFilterResult:
    """What PreFilter says."""
    result: PreFilterResult = plugin.pre_filter(CycleState(), info(pod), state)
    return result


def filtered(plugin: Any, pod: v1.Pod, state: ClusterState) -> dict[str, Status]:
    """The status of each node; {} when PreFilter skips or rejects."""
    cycle, pending = CycleState(), info(pod)
    if hasattr(plugin, "pre_filter") and not plugin.pre_filter(cycle, pending, state).status.ok:
        return {}
    nodes = state.nodes
    rows = np.flatnonzero(nodes.alive)
    verdicts = plugin.filter(cycle, pending, nodes, rows)
    return {nodes.names[row]: verdicts.status(i) for i, row in enumerate(rows.tolist())}


def rejections(plugin: Any, pod: v1.Pod, state: ClusterState) -> dict[str, tuple[str, ...]]:
    """The reasons of each node that is rejected."""
    said = filtered(plugin, pod, state)
    return {name: status.reasons for name, status in said.items() if not status.ok}


def scored(plugin: Any, pod: v1.Pod, state: ClusterState) -> dict[str, int] | None:
    """The normalised score of each node; None when PreScore skips."""
    cycle, pending, nodes = CycleState(), info(pod), state.nodes
    rows = np.flatnonzero(nodes.alive)
    if hasattr(plugin, "pre_score") and plugin.pre_score(cycle, pending, state, rows).skipped:
        return None
    scores = plugin.score(cycle, pending, nodes, rows)
    if isinstance(plugin, ScoreExtensions):
        scores = plugin.normalize(cycle, scores)
    names = [nodes.names[row] for row in rows.tolist()]
    return dict(zip(names, scores.tolist(), strict=True))


def hinted(
    plugin: Any, pod: v1.Pod, event: tuple[Resource, ActionType], old: Any, new: Any
) -> QueueingHint | None:
    """What the plugin says of an event; None when it does not ask for such events."""
    incoming = ClusterEvent(*event)
    for registered in plugin.events_to_register():
        if registered.event.matches(incoming):
            if registered.hint is None:
                return QueueingHint.QUEUE
            hint: QueueingHint = registered.hint(info(pod), old, new)
            return hint
    return None
