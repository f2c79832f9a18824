"""An ``Explanation`` of a pending pod from a cluster's state alone: where it fits, and why not."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.objects import Pod
from podsched.ask.explain.fitting import Choosing, Fitting, fit
from podsched.ask.explain.funnel import add_rejections_alone, funnel
from podsched.ask.explain.groups import MAX_GROUPS, groups, verdict
from podsched.ask.explain.waking import wake_events
from podsched.cache.objects import ClusterState
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import PodInfo
from podsched.v1.scheduling_pb2 import Explanation, PodReference, PodState


def explain_fit(
    answer: Explanation,
    runtime: ProfileRuntime,
    cluster: ClusterState,
    pod: PodInfo,
    wanted: Sequence[str] = (),
    chosen: str = "",
) -> Fitting | None:
    """Add where the pod fits and why not elsewhere.

    ``wanted``: nodes to tell of one by one; ``chosen``: the node whose scores come first.
    Returns None where a plugin failed, which the message says.
    """
    answer.nodes = len(cluster.columns.live_rows)
    try:
        fitting = fit(runtime, cluster, pod)
    except PluginFailure as failure:
        answer.message = str(failure)
        return None
    feasible = fitting.feasible
    answer.feasible_nodes = len(feasible)
    steps = funnel(fitting)
    add_rejections_alone(fitting, steps)
    answer.funnel.extend(steps)
    found = groups(fitting)
    answer.groups.extend(found[:MAX_GROUPS])
    if len(found) > MAX_GROUPS:
        hidden = sum(group.nodes for group in found[MAX_GROUPS:])
        answer.notes.append(
            f"{hidden} nodes in {len(found) - MAX_GROUPS} more groups are not listed."
        )
    answer.node_verdicts.extend(verdict(fitting, name) for name in wanted)
    if len(feasible):
        _add_scores(answer, fitting, chosen)
    else:
        _add_rejection(answer, fitting)
    return fitting


def _add_rejection(answer: Explanation, fitting: Fitting) -> None:
    outcome = fitting.outcome if fitting.pre.status.ok else None
    diagnosis = Diagnosis(answer.nodes, fitting.pre, outcome)
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
    """Return what is to be said of a pod that has ended."""
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
