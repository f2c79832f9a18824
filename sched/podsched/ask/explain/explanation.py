"""Explain from a cluster's state alone where a pending pod fits, and why not elsewhere."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.objects import Pod
from podsched.ask.explain.fitting import Choosing, Fitting, fit
from podsched.cache.objects import ClusterState
from podsched.decide.evaluation.filtering import filter_one
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.events import ActionType, ClusterEvent
from podsched.framework.filter_outcome import EXCLUDED, PASSED, StatusGroup
from podsched.framework.nodes import Int64s
from podsched.framework.plugin import FilterPlugin
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import ExplainsParts, MeasuresRequirements, Requirement
from podsched.framework.verdicts import Rows
from podsched.lib.counted import counted
from podsched.v1.scheduling_pb2 import (
    Explanation,
    FunnelStep,
    NodeGroup,
    NodeParts,
    NodeVerdict,
    PodReference,
    PodState,
    Shortfall,
    ShortfallOnNode,
    WakeEvent,
)

#: Max groups in an explanation; a note gives the number of the others.
MAX_GROUPS: Final = 50
MAX_EXAMPLES: Final = 5
MAX_SHORTFALLS: Final = 10


def reference(pod: PodInfo) -> PodReference:
    """Return a reference to a pod."""
    return PodReference(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        priority=pod.priority,
        node_name=pod.node_name,
    )


def wake_events(runtime: ProfileRuntime, plugins: Iterable[str]) -> list[WakeEvent]:
    """Return the events by name, each with the plugins that wait for it.

    A plugin that registers no events waits for all events.
    """
    found: dict[str, WakeEvent] = {}
    extensions = runtime.enqueue_extensions()
    for plugin in sorted(plugins):
        registers = extensions.get(plugin)
        if registers is None:
            _add(found, "*", plugin, asks=False)
            continue
        for registered in registers.events_to_register():
            for name in _names(registered.event):
                _add(found, name, plugin, asks=registered.hint is not None)
    return [found[name] for name in sorted(found)]


def replace_wake_events(answer: Explanation, runtime: ProfileRuntime) -> None:
    """Set the events of the plugin that gates the pod, or of those on which it waits."""
    gate = answer.queue.gating_plugin
    plugins = [gate] if gate else answer.queue.unschedulable_plugins
    del answer.wake_events[:]
    answer.wake_events.extend(wake_events(runtime, plugins))


def _names(event: ClusterEvent) -> list[str]:
    """Return the names of all single events of a registration."""
    if event.is_wildcard:
        return ["*"]
    if event.action & ActionType.UPDATE == ActionType.UPDATE:
        updates = [ActionType.UPDATE]
    else:
        updates = [action for action in ActionType if action & event.action & ActionType.UPDATE]
    others = [action for action in (ActionType.ADD, ActionType.DELETE) if action & event.action]
    return [ClusterEvent(event.resource, action).text for action in (*others, *updates)]


def _add(found: dict[str, WakeEvent], name: str, plugin: str, *, asks: bool) -> None:
    event = found.get(name)
    if event is None:
        event = found[name] = WakeEvent(event=name, asks_first=True)
    event.asks_first = event.asks_first and asks
    if plugin not in event.plugins:
        event.plugins.append(plugin)


PRE_FILTER, FILTER = "PreFilter", "Filter"


def funnel(fitting: Fitting) -> list[FunnelStep]:
    """Return the steps; a node counts at the first filter that rejects it, as in kube-scheduler.

    Each step begins with the nodes that the one before it has left; the last one leaves the
    feasible nodes. PreFilter is a step if it rejects nodes, or the pod as a whole. A filter's step
    has the number of all nodes that it rejects by itself, without nominated pods.
    """
    outcome, nodes = fitting.outcome, fitting.cluster.columns
    steps = []
    excluded = int((outcome.plugin == EXCLUDED).sum())
    if excluded:
        status = outcome.excluded
        names = (status.plugin,) if status.plugin else fitting.pre.plugins
        step = FunnelStep(extension_point=PRE_FILTER, plugin=", ".join(names), rejected=excluded)
        _add_reasons(step, Counter(dict.fromkeys(status.reasons, excluded)))
        steps.append(step)
    for index, named in enumerate(fitting.runtime.filter if fitting.pre.status.ok else ()):
        step = FunnelStep(
            extension_point=FILTER,
            plugin=named.name,
            rejected=int((outcome.plugin == index).sum()),
            skipped=named.name in fitting.state.skip_filter,
        )
        _add_reasons(step, _reasons(fitting, index))
        steps.append(step)
        if not step.skipped:
            rows = nodes.node_table.live_rows
            verdicts = filter_one(named, fitting.state, fitting.pod, nodes, rows)
            # ``rejected`` is with nominated pods. So it may be the larger, and then it is the
            # better lower bound.
            step.rejects_alone = max(int((verdicts.bits != 0).sum()), step.rejected)
    left = len(outcome.rows)
    for step in steps:
        step.before = left
        step.after = left = left - step.rejected
    return steps


def _reasons(fitting: Fitting, index: int) -> Counter[str]:
    """Return how many nodes a plugin rejects, by reason; a node may have several reasons."""
    outcome = fitting.outcome
    bits = outcome.bits[outcome.plugin == index]
    if not len(bits):
        return Counter()
    found: Counter[str] = Counter()
    for place, reason in enumerate(outcome.reasons[index]):
        count = int((bits >> np.uint64(place) & np.uint64(1)).sum())
        if count:
            found[reason.text] += count
    return found


def _add_reasons(step: FunnelStep, counts: Counter[str]) -> None:
    for reason, count in counts.most_common():
        step.reasons.add(reason=reason, nodes=count)


def explain_fit(
    answer: Explanation,
    runtime: ProfileRuntime,
    cluster: ClusterState,
    pod: PodInfo,
    wanted: Sequence[str],
    chosen: str = "",
) -> Fitting | None:
    """Add where the pod fits and why not elsewhere.

    ``wanted``: nodes to describe one by one; ``chosen``: the node whose scores come first. Returns
    None if a plugin failed; the message says so.
    """
    answer.nodes = len(cluster.columns.node_table)
    try:
        fitting = fit(runtime, cluster, pod)
    except PluginFailure as failure:
        answer.message = str(failure)
        return None
    feasible = fitting.feasible
    answer.feasible_nodes = len(feasible)
    answer.funnel.extend(funnel(fitting))
    found = groups(fitting)
    answer.groups.extend(found[:MAX_GROUPS])
    if len(found) > MAX_GROUPS:
        hidden = counted(sum(group.nodes for group in found[MAX_GROUPS:]), "node")
        more = counted(len(found) - MAX_GROUPS, "more group")
        answer.notes.append(f"Not listed: {hidden} in {more}.")
    answer.node_verdicts.extend(verdict(fitting, name) for name in wanted)
    if len(feasible):
        _add_scores(answer, fitting, chosen)
    else:
        _add_rejection(answer, fitting)
    return fitting


def _add_rejection(answer: Explanation, fitting: Fitting) -> None:
    diagnosis = fitting.diagnosis
    answer.message = diagnosis.fit_error()
    plugins = {*diagnosis.unschedulable_plugins, *diagnosis.pending_plugins}
    answer.wake_events.extend(wake_events(fitting.runtime, plugins))


def _add_scores(answer: Explanation, fitting: Fitting, chosen: str) -> None:
    try:
        choosing = Choosing(fitting)
    except PluginFailure as failure:
        answer.message = str(failure)
        return
    answer.scores.extend(choosing.best(chosen))
    answer.tied_nodes = choosing.tied
    for node in answer.node_verdicts:
        if node.code == "Success":
            node.score.CopyFrom(choosing.of(node.node))


def explain_ended(pod: Pod) -> Explanation:
    """Return the explanation of a pod that has ended."""
    named = PodReference(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        priority=pod.spec.priority,
        node_name=pod.spec.node_name,
    )
    return Explanation(
        pod=named,
        state=PodState.FINISHED,
        scheduler_name=pod.spec.scheduler_name,
        message=f"the pod has ended: {pod.status.phase}",
    )


def groups(fitting: Fitting) -> list[NodeGroup]:
    """Return the groups of rejected nodes, the largest first; there may be many.

    The examples of a group are the nodes that lack least: the fewest requirements, then the
    smallest share of the requested amount.
    """
    rejected = (each for each in fitting.outcome.groups if each.plugin != PASSED)
    found = [_group(fitting, each) for each in rejected]
    return sorted(found, key=lambda group: -group.nodes)


def verdict(fitting: Fitting, name: str) -> NodeVerdict:
    """Return the results of the filters for one node."""
    row = fitting.cluster.columns.row_of(name)
    if row is None:
        return NodeVerdict(node=name, code="NotFound")
    places = np.flatnonzero(fitting.outcome.rows == row)
    place = int(places[0])
    status = fitting.outcome.status(place)
    found = NodeVerdict(
        node=name, code=status.code.text, plugin=status.plugin, reasons=status.reasons
    )
    missed = _missed(fitting, int(fitting.outcome.plugin[place]), places)
    found.shortfalls.extend(_shortfalls([name], missed))
    found.parts.extend(_parts(fitting, places))
    return found


def _parts(fitting: Fitting, places: Rows) -> Iterator[NodeParts]:
    """Yield the verdicts on the parts of one node."""
    if not fitting.pre.status.ok:
        return
    nodes, rows = fitting.seen_by_filters(places)
    for named in fitting.runtime.filter:
        if isinstance(named.plugin, ExplainsParts):
            for of in named.plugin.parts(fitting.state, fitting.pod, nodes, int(rows[0])):
                yield NodeParts(request=of.request, names=of.names, why_not=of.why_not)


def _group(fitting: Fitting, rejected: StatusGroup) -> NodeGroup:
    status, places = rejected.status, rejected.places
    names = fitting.cluster.columns.names
    missed = _missed(fitting, rejected.plugin, places)
    group = NodeGroup(
        nodes=len(places),
        plugin=status.plugin,
        code=status.code.text,
        reasons=sorted(set(status.reasons)),
    )
    mine = [names[row] for row in fitting.outcome.rows[places].tolist()]
    group.examples.extend(mine[at] for at in _nearest(mine, missed))
    group.shortfalls.extend(_shortfalls(mine, missed))
    return group


def _missed(fitting: Fitting, index: int, places: Rows) -> list[Requirement]:
    """Return the requirements that some of the rows do not meet, if their plugins can measure them.

    For nodes that PreFilter left out, these are the requirements of the plugins that did so. If it
    rejected the pod as a whole, there is nothing to measure.
    """
    asked: list[Requirement] = []
    nodes, rows = fitting.seen_by_filters(places)
    for named in _rejecting(fitting, index):
        if isinstance(named.plugin, MeasuresRequirements):
            asked += named.plugin.requirements(fitting.state, fitting.pod, nodes, rows)
    return [each for each in asked if (each.wanted > each.available).any()]


def _rejecting(fitting: Fitting, index: int) -> Sequence[Named[FilterPlugin]]:
    """Return the filters that reject nodes, by the outcome's index of the plugin."""
    filters, pre = fitting.runtime.filter, fitting.pre
    if index >= 0:
        return [filters[index]]
    if index == EXCLUDED and pre.status.ok:
        return [named for named in filters if named.name in pre.plugins]
    return []


def _nearest(names: Sequence[str], missed: Sequence[Requirement]) -> list[int]:
    """Return the positions of the examples, by number and relative size of what they lack."""
    count = np.zeros(len(names), dtype=np.int64)
    part: NDArray[np.float64] = np.zeros(len(names))
    for each in missed:
        lacks = _lacks(each)
        count += lacks > 0
        part += lacks / np.maximum(each.wanted, 1)
    order = np.lexsort((part, count))
    last = order[min(MAX_EXAMPLES, len(order)) - 1]
    fewer, same = count < count[last], count == count[last]
    near = np.flatnonzero(fewer | (same & (part <= part[last]))).tolist()
    return heapq.nsmallest(MAX_EXAMPLES, near, lambda at: (count[at], part[at], names[at]))


def _lacks(each: Requirement) -> Int64s:
    lacks: Int64s = np.maximum(each.wanted - each.available, 0)
    return lacks


def _shortfalls(names: Sequence[str], missed: Sequence[Requirement]) -> Iterator[Shortfall]:
    for each in missed[:MAX_SHORTFALLS]:
        lacks = _lacks(each)
        missing = np.flatnonzero(lacks)
        least, most = missing[lacks[missing].argmin()], missing[lacks[missing].argmax()]
        yield Shortfall(
            what=each.what,
            unit=each.unit,
            nodes=len(missing),
            least=_on_node(names, each, int(least)),
            most=_on_node(names, each, int(most)),
        )


def _on_node(names: Sequence[str], each: Requirement, at: int) -> ShortfallOnNode:
    wanted, available = int(each.wanted[at]), int(each.available[at])
    return ShortfallOnNode(
        node=names[at], wanted=wanted, available=available, lacks=wanted - available
    )
