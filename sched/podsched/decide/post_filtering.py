"""Run the PostFilter plugins of a profile for a pod that fits no node.

Actors may make dry runs of preemption ahead of that (``try_ahead``), or some of the dry runs may be
made in each event-loop turn (``try_some``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from podsched.decide.decision import ShouldStop
from podsched.decide.evaluation.dry_run import RemoteDryRun, dry_run_request, merged
from podsched.decide.evaluation.filtering import ProfileFilters
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, PostFilterPlugin, PostFilterResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status, unschedulable

POST_FILTER_WORDING = 'running PostFilter plugin "{}"'
#: Rounds of remote dry runs for one pod: first on as many nodes as candidates are wanted, then, if
#: these give too few candidates, on all other nodes.
DRY_RUN_ROUNDS = 2


async def try_ahead(
    remote: RemoteDryRun,
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    cluster: ClusterView,
    runner: ProfileFilters,
    traceparent: str,
) -> bool:
    """Let actors dry-run preemption for a pod; return whether time has passed.

    ``traceparent`` is that of the attempt.
    """
    plugin = runtime.dry_run
    if plugin is None:
        return False
    name = plugin.name
    for number in range(DRY_RUN_ROUNDS):
        try:
            plan = guarded(name, POST_FILTER_WORDING, plugin.plan_dry_run, pod, cluster, runner)
        except PluginFailure:
            # PostFilter fails in the same way, and that is reported.
            return number > 0
        if plan is None or not remote.worth(len(plan.rows)):
            return number > 0
        request = dry_run_request(runtime, state, pod, cluster)
        answers = await remote.dry_run(request, plan.rows, traceparent)
        # The actors did not answer: the leader tries the nodes itself, in this attempt.
        if not answers:
            break
        plugin.learn_dry_run(pod, cluster, plan, merged(answers))
    return True


def try_some(
    runtime: ProfileRuntime,
    state: CycleState,
    pod: PodInfo,
    cluster: ClusterView,
    runner: ProfileFilters,
    draw: float,
    should_stop: ShouldStop,
) -> bool:
    """Dry-run preemption on some nodes; return whether other nodes are left for later."""
    plugin = runtime.divided_dry_run
    if plugin is None:
        return False
    name, call = plugin.name, plugin.dry_run_some
    try:
        return guarded(
            name, POST_FILTER_WORDING, call, state, pod, cluster, runner, draw, should_stop
        )
    except PluginFailure:
        # PostFilter fails in the same way, and that is reported.
        return False


def run_post_filter(
    plugins: Sequence[Named[PostFilterPlugin]],
    state: CycleState,
    pod: PodInfo,
    cluster: ClusterView,
    runner: ProfileFilters,
) -> PostFilterResult:
    """Return the result of the first PostFilter plugin that ``ends_post_filter``, else of all.

    Rules: kube-scheduler v1.36 ``framework/runtime/framework.go``, RunPostFilterPlugins.
    """
    merged = None
    for named in plugins:
        call = named.plugin.post_filter
        try:
            result = named.runs.call(
                named.name, POST_FILTER_WORDING, call, state, pod, cluster, runner
            )
        except PluginFailure as failure:
            return PostFilterResult(failure.status)
        merged = merge(merged, result, named.name)
        if ends_post_filter(result.status):
            break
    assert merged is not None
    return merged


def ends_post_filter(status: Status) -> bool:
    """Return whether no other PostFilter plugin runs after one has returned this status.

    Others run only after Unschedulable and Pending.
    """
    return status.code not in (Code.UNSCHEDULABLE, Code.PENDING)


def merge(
    before: PostFilterResult | None, result: PostFilterResult, plugin: str
) -> PostFilterResult:
    """Return the result after another plugin; ``before``: that of the plugins before it, if any.

    If no plugin helps, all reasons count, the first plugin's name, and the latest nomination.
    """
    status, nominated = result.status, result.nominated_node_name
    if before is None or ends_post_filter(status):
        return replace(result, status=status.by(plugin))
    merged = unschedulable(*before.status.reasons, *status.reasons).by(before.status.plugin)
    return PostFilterResult(merged, before.nominated_node_name if nominated is None else nominated)
