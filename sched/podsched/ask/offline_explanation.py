"""Explanations from a cluster's objects alone, such as a dump: no replica is asked.

What only a replica knows is missing then: queue, attempts, backoff, and the decision itself. Of a
pod that has a node it is told how a decision would be made now, without the pod there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod
from podsched.ask.explain.changes.question import Question
from podsched.ask.explain.changes.search import add_changes
from podsched.ask.explain.explanation import explain_ended, explain_fit, reference, wake_events
from podsched.ask.explain.pod_group import pod_group_standing
from podsched.ask.explain.preempting import add_preemption
from podsched.ask.whatif.pod_group_explanation import explain_pod_group
from podsched.ask.whatif.world import World, never
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import SchedulerConfiguration
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PluginFactory
from podsched.framework.pods import PodInfo
from podsched.term.state import SchedulingState, build_state
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation, PodState

OFFLINE: Final = (
    "Computed from objects: queue, attempts, backoff and past decisions are known to a replica "
    "alone."
)
NOW: Final = (
    "Nodes and scores are those of a decision made now, without the pod on its node; when it was "
    "placed the cluster may have looked otherwise."
)


def explain_offline(
    objects: Iterable[AnyObject],
    config: SchedulerConfiguration,
    plugins: Mapping[str, PluginFactory],
    request: ExplainRequest,
) -> Explanation | None:
    """Explain a pod of a cluster made of objects, each with a uid; None if it is not among them.

    Raises QuantityError for an amount that is none, PluginError for a plugin that cannot be made.
    """
    state = build_state(config, plugins, seed=0)
    named = None
    # Nodes come by name, so that equal nodes keep one order; pods come last.
    for obj in sorted(objects, key=lambda o: (isinstance(o, Pod), o.metadata.name)):
        state.cache.apply(kind_of(obj).name, None, obj)
        if isinstance(obj, Pod) and _is(obj, request):
            named = obj
    info = state.cache.cluster.pods.get(f"{request.namespace}/{request.name}")
    if info is None:
        return explain_ended(named) if named is not None else None
    return _explain(state, info, request, config.profiles[0].scheduler_name)


def explain_group_offline(
    objects: Iterable[AnyObject],
    config: SchedulerConfiguration,
    plugins: Mapping[str, PluginFactory],
    request: ExplainRequest,
    is_over: Callable[[], bool] = never,
) -> Explanation | None:
    """Explain a PodGroup of a cluster made of objects; None if it is not among them.

    Raises as ``explain_offline``. ``is_over``: whether the search has taken long enough.
    """
    world = World.of_objects(objects, config, plugins)
    key = f"{request.namespace}/{request.name}"
    standing = pod_group_standing(world.cluster, key)
    if not standing.exists and not standing.members:
        return None
    answer = Explanation(pod_group=standing, message=standing.message, notes=[OFFLINE])
    waits = standing.with_node < standing.members
    answer.state = PodState.PENDING if waits else PodState.BOUND
    explain_pod_group(answer, world, key, is_over, changes=request.changes)
    return answer


def _is(pod: Pod, request: ExplainRequest) -> bool:
    return (pod.metadata.namespace, pod.metadata.name) == (request.namespace, request.name)


def _explain(
    state: SchedulingState, info: PodInfo, request: ExplainRequest, default_profile: str
) -> Explanation:
    scheduler = info.cls.scheduler_name
    answer = Explanation(pod=reference(info), scheduler_name=scheduler, notes=[OFFLINE])
    if scheduler not in state.profiles:
        answer.notes.append(
            f"No profile is called {scheduler}: it is explained with {default_profile}."
        )
    runtime = state.profiles.get(scheduler) or state.profiles[default_profile]
    if info.node_name:
        answer.state = PodState.BOUND
        answer.notes.append(NOW)
        info = _without_node(state, info)
    else:
        answer.state = PodState.DELETING if info.terminating else PodState.PENDING
    cluster = state.cache.cluster
    if info.group:
        answer.pod_group.CopyFrom(pod_group_standing(cluster, info.group))
    node_name = answer.pod.node_name
    fitting = explain_fit(answer, runtime, cluster, info, request.nodes, node_name)
    if fitting is not None and not node_name:
        add_preemption(answer, fitting)
    if not node_name:
        _add_gate(answer, runtime, info)
        if request.changes and answer.state == PodState.PENDING:
            add_changes(answer, Question(runtime, state.cache, info))
    return answer


def _without_node(state: SchedulingState, info: PodInfo) -> PodInfo:
    """Take a pod off its node; return it as it was before it was bound."""
    state.cache.remove_pod(info.uid)
    unbound = Pod()
    unbound.CopyFrom(info.pod)
    unbound.spec.node_name = ""
    return make_pod_info(unbound, state.cache.classes)


def _add_gate(answer: Explanation, runtime: ProfileRuntime, info: PodInfo) -> None:
    gate = runtime.gate(info)
    if gate is not None:
        plugin, status = gate
        answer.queue.queue = "gated"
        answer.queue.gating_plugin = plugin
        answer.queue.gate_reasons.extend(status.reasons)
        del answer.wake_events[:]
        answer.wake_events.extend(wake_events(runtime, [plugin]))
