"""Explain a pod from a cluster's objects alone, such as a dump, without a replica.

Queue, attempts, backoff and past decisions are missing, because only a replica knows them. For a
bound pod, the explanation is of the decision that would be made now, with the pod taken off its
node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Final

from podsched.api.objects import AnyObject, Pod, key_of
from podsched.ask.explain.changes.search import add_changes
from podsched.ask.explain.explanation import (
    explain_ended,
    explain_fit,
    reference,
    replace_wake_events,
)
from podsched.ask.explain.pod_group import pod_group_standing, standing_answer
from podsched.ask.explain.preempting import add_preemption
from podsched.ask.queues.counting import admission_of
from podsched.ask.queues.node_room import add_node_room
from podsched.ask.queues.waiting import add_admission, preempted_pods
from podsched.ask.whatif.claims import with_claims
from podsched.ask.whatif.deciding import never
from podsched.ask.whatif.pod_group_explanation import explain_pod_group
from podsched.ask.whatif.world import World
from podsched.config.load import SchedulerConfiguration
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PluginFactory
from podsched.framework.pod_groups import KIND as POD_GROUP
from podsched.framework.pods import PodInfo
from podsched.term.admission.units import unit_key
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
    objects: Sequence[AnyObject],
    config: SchedulerConfiguration,
    plugins: Mapping[str, PluginFactory],
    request: ExplainRequest,
    is_over: Callable[[], bool] = never,
) -> Explanation | None:
    """Explain a pod or PodGroup of a cluster made of objects; None if it is not among them.

    ``objects``: each with a uid. ``is_over``: whether the search for what would help a group has
    taken long enough. Raises QuantityError for an invalid amount, PluginError for a plugin that
    cannot be created.
    """
    objects = with_claims(objects)
    world = World.of_objects(objects, config, plugins)
    key = f"{request.namespace}/{request.name}"
    if request.kind == POD_GROUP:
        answer, unit = _explain_group(world, key, request, is_over), key
    elif (info := world.cluster.pods.get(key)) is not None:
        answer, unit = _explain(world, info, request, config), unit_key(info)
    else:
        ended = [obj for obj in objects if isinstance(obj, Pod) and key_of(obj) == key]
        return explain_ended(ended[-1]) if ended else None
    if answer is not None:
        admission = admission_of(objects, config, plugins)
        add_admission(answer, admission, unit)
        add_node_room(answer, world, unit, preempted_pods(admission, unit))
    return answer


def _explain_group(
    world: World, key: str, request: ExplainRequest, is_over: Callable[[], bool]
) -> Explanation | None:
    answer = standing_answer(world.cluster, key)
    if answer is None:
        return None
    answer.notes.append(OFFLINE)
    waits = answer.pod_group.with_node < answer.pod_group.members
    answer.state = PodState.PENDING if waits else PodState.BOUND
    explain_pod_group(answer, world, key, is_over, changes=request.changes)
    return answer


def _explain(
    world: World, info: PodInfo, request: ExplainRequest, config: SchedulerConfiguration
) -> Explanation:
    scheduler, runtime = info.cls.scheduler_name, world.profiles.of(info)
    answer = Explanation(pod=reference(info), scheduler_name=scheduler, notes=[OFFLINE])
    if config.profile(scheduler) is None:
        default = runtime.scheduler_name
        answer.notes.append(f"No profile is called {scheduler}: it is explained with {default}.")
    if info.node_name:
        answer.state = PodState.BOUND
        answer.notes.append(NOW)
        info = _without_node(world, info)
    else:
        answer.state = PodState.DELETING if info.terminating else PodState.PENDING
    if info.group:
        answer.pod_group.CopyFrom(pod_group_standing(world.cluster, info.group))
    node_name = answer.pod.node_name
    fitting = explain_fit(answer, runtime, world.cluster, info, request.nodes, node_name)
    if fitting is not None and not node_name:
        add_preemption(answer, fitting)
    if not node_name:
        _add_gate(answer, runtime, info)
        if request.changes and answer.state == PodState.PENDING:
            add_changes(answer, world.question(info))
    return answer


def _without_node(world: World, info: PodInfo) -> PodInfo:
    """Remove a pod from its node; return it as it was before it was bound."""
    world.changes.remove(info, keep_claims=True)
    unbound = deepcopy(info.pod)
    unbound.spec.node_name = ""
    return world.changes.submit(unbound)


def _add_gate(answer: Explanation, runtime: ProfileRuntime, info: PodInfo) -> None:
    gate = runtime.gate(info)
    if gate is not None:
        plugin, status = gate
        answer.queue.queue = "gated"
        answer.queue.gating_plugin = plugin
        answer.queue.gate_reasons.extend(status.reasons)
        replace_wake_events(answer, runtime)
