"""Run PreBind: each plugin returns a plan, whose objects and patches are written with the fence.

Then the plan's ``wait``, if it has one, is called on every change of the cluster until it no longer
returns Pending, or time is up. Most pods need no PreBind and go straight to Bind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from podsched.api.codec import write
from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode
from podsched.config.plugins import ExtensionPoint
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.decide.runtime.run_log import PluginRun
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ObjectDeletion, ObjectPatch, PreBindPlan, PreBindPlugin
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.lib.tasks import Changes
from podsched.serve.client.cluster import merge_patch_request
from podsched.serve.client.errors import ClientError
from podsched.term.after_trial import AfterTrial
from podsched.term.writes.bind_queue import Assignment
from podsched.term.writes.object_turns import ObjectTurns
from podsched.v1 import api_pb2

PRE_BIND_WORDING = 'running PreBind plugin "{}"'

#: Requests that are made between two pauses; one takes 10 µs.
_REQUESTS_PER_PAUSE = 200
#: Max plans of one plugin for a pod; each conflict needs a new one.
_PLANS = 20
#: Max seconds to wait until the cluster shows another version of the objects that a plan patched.
_SEEN_WITHIN = 0.5

_Results = Awaitable[Sequence[api_pb2.BatchResult]]


class PreBindCluster(NamedTuple):
    """The cluster that plans are made of, and the calls that write a plan's objects.

    The calls raise ClientError if they fail as a whole. ``turns`` lets one pod at a time patch an
    object. After each await, ``view`` may be read only once no trial is open.
    """

    view: ClusterView
    changes: Changes
    create: Callable[[Sequence[AnyObject]], _Results]
    patch: Callable[[Sequence[api_pb2.PatchRequest]], _Results]
    turns: ObjectTurns
    after_trial: AfterTrial


#: Called when a plan has to wait, with the reason and the message of its event, if it has one.
Waits = Callable[[tuple[str, str] | None], None]


class _ConflictError(Exception):
    """A patch was for an older version of its object."""


def wants_pre_bind(runtime: ProfileRuntime, assignment: Assignment) -> bool:
    """Return whether any PreBind plugin has something to do for the pod, or it gets tolerations."""
    if assignment.tolerations:
        return True
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    for named in runtime.pre_bind:
        # Not through ``guarded``, which takes longer: nearly every pod is skipped.
        try:
            if not named.plugin.pre_bind_pre_flight(state, pod, node).skipped:
                return True
        except Exception:  # ``run_pre_bind`` asks again and reports it
            return True
    return False


def _pre_flight(named: Named[PreBindPlugin], assignment: Assignment) -> Status:
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    try:
        call = named.plugin.pre_bind_pre_flight
        return guarded(named.name, PRE_BIND_WORDING, call, state, pod, node)
    except PluginFailure as failure:
        return failure.status


async def run_pre_bind(
    runtime: ProfileRuntime,
    assignment: Assignment,
    cluster: PreBindCluster,
    runs: list[PluginRun],
    waits: Waits,
) -> Status:
    """Run the PreBind plugins one after another; the first that does not succeed ends it.

    ``runs`` gets the run of each, which lasts until its plan is carried out.
    """
    if assignment.tolerations:
        try:
            status = await _done(cluster.patch([tolerations_patch(assignment)]))
        except _ConflictError as conflict:  # By now another pod has this name.
            status = error(str(conflict))
        if not status.ok:
            return status
    if not runtime.pre_bind:
        return SUCCESS
    began = time.monotonic()
    status = await _pre_bind(runtime, assignment, cluster, runs, waits)
    runtime.meter.passed(ExtensionPoint.PRE_BIND, status.code, time.monotonic() - began)
    return status


async def _pre_bind(
    runtime: ProfileRuntime,
    assignment: Assignment,
    cluster: PreBindCluster,
    runs: list[PluginRun],
    waits: Waits,
) -> Status:
    clock = asyncio.get_running_loop().time
    for named in runtime.pre_bind:
        began = clock()
        await cluster.after_trial.wait()
        status = _pre_flight(named, assignment)
        if status.skipped:
            continue
        if status.ok:
            status = await _run_plugin(named, assignment, cluster, waits)
        point = ExtensionPoint.PRE_BIND.label
        runs.append(PluginRun(named.name, point, began, clock(), status.code.text))
        if status.code is Code.ERROR:
            named.runs.failed()
        if not status.ok:
            return status.by(named.name)
    return SUCCESS


async def _run_plugin(
    named: Named[PreBindPlugin], assignment: Assignment, cluster: PreBindCluster, waits: Waits
) -> Status:
    name = named.name
    try:
        plan, status = await _write_plan(named, assignment, cluster)
        if status.ok and plan.wait is not None:
            status = await _wait(name, plan, plan.wait, cluster, waits)
    except PluginFailure as failure:
        return failure.status
    if status.code is not Code.ERROR:
        return status
    return error(f"{PRE_BIND_WORDING.format(name)}: {status.message}")


async def _write_plan(
    named: Named[PreBindPlugin], assignment: Assignment, cluster: PreBindCluster
) -> tuple[PreBindPlan, Status]:
    """Write the plugin's plan; plan again after a conflict, and after other pods' writes."""
    plan = await _plan(named, assignment, cluster)
    objects = [(of.kind, of.namespace, of.name) for of in plan.patches if of.resource_version]
    async with cluster.turns.of(objects) as waited:
        # Others have written these objects meanwhile.
        if waited:
            plan = await _plan(named, assignment, cluster)
        for _ in range(_PLANS):
            status = plan.status
            if not status.ok:
                break
            try:
                status = await _write(named.name, plan, cluster)
            except _ConflictError as conflict:
                status = error(str(conflict))
                if not plan.plans_again:
                    break
                await _seen(plan.patches, cluster)
                plan = await _plan(named, assignment, cluster)
                continue
            # Keep the turn until the informer shows the write; otherwise the next pod would plan
            # with the old object, and its patch would be refused.
            if cluster.turns.others_wait(objects):
                await _seen(plan.patches, cluster)
            break
    return plan, status


async def _plan(
    named: Named[PreBindPlugin], assignment: Assignment, cluster: PreBindCluster
) -> PreBindPlan:
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    call = named.plugin.pre_bind
    await cluster.after_trial.wait()
    plan = named.runs.call(named.name, PRE_BIND_WORDING, call, state, pod, node, cluster.view)
    if plan.steps is None:
        return plan
    while True:
        await cluster.after_trial.wait()
        made = guarded(named.name, PRE_BIND_WORDING, next, plan.steps)
        if made is not None:
            return made
        await asyncio.sleep(0)


async def _seen(patches: Sequence[ObjectPatch], cluster: PreBindCluster) -> None:
    """Wait until the cluster no longer has the versions of objects that the patches are for."""

    def is_old(patch: ObjectPatch) -> bool:
        found = cluster.view.get(patch.kind, patch.namespace, patch.name)
        return found is not None and found.metadata.resource_version == patch.resource_version

    loop = asyncio.get_running_loop()
    deadline = loop.time() + _SEEN_WITHIN
    await cluster.after_trial.wait()
    while any(map(is_old, patches)) and (left := deadline - loop.time()) > 0:
        await cluster.changes.next(left)
        await cluster.after_trial.wait()


async def _write(name: str, plan: PreBindPlan, cluster: PreBindCluster) -> Status:
    """Store the new objects, then write the patches. Raises _ConflictError."""
    if plan.creates:
        status = await _done(cluster.create(plan.creates))
        if not status.ok:
            return status
        await cluster.after_trial.wait()
        if plan.created is not None:
            guarded(name, PRE_BIND_WORDING, plan.created)
    requests: list[api_pb2.PatchRequest] = []
    for patch in plan.patches:
        requests.append(patch_request(patch))
        if len(requests) % _REQUESTS_PER_PAUSE == 0:
            await asyncio.sleep(0)
    return await _done(cluster.patch(requests)) if requests else SUCCESS


async def _done(call: _Results) -> Status:
    """Make a call that writes. Raises _ConflictError."""
    try:
        results = await call
    except ClientError as exc:
        return error(str(exc))
    for result in results:
        if result.code == StatusCode.ABORTED:
            raise _ConflictError(result.message)
        if result.code != StatusCode.OK:
            return error(result.message)
    return SUCCESS


async def _wait(
    name: str,
    plan: PreBindPlan,
    wait: Callable[[ClusterView], Status],
    cluster: PreBindCluster,
    waits: Waits,
) -> Status:
    """Wait until a plan is done, or its time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + plan.timeout
    told = False
    while True:
        await cluster.after_trial.wait()
        status = guarded(name, PRE_BIND_WORDING, wait, cluster.view)
        if status.code is not Code.PENDING:
            return status
        if not told:
            waits(plan.waits)
            told = True
        left = deadline - loop.time()
        if left <= 0:
            if plan.timed_out is not None:
                guarded(name, PRE_BIND_WORDING, plan.timed_out)
            return error(f"{status.message}: context deadline exceeded")
        await cluster.changes.next(left)


def tolerations_patch(assignment: Assignment) -> api_pb2.PatchRequest:
    """Return the request that adds the tolerations of its flavors to a pod.

    It contains all tolerations, because a merge patch replaces lists. If the pod has got others
    meanwhile, the API refuses the request: tolerations of a pod can only be added.
    """
    pod = assignment.pod
    all_of = [write(one) for one in (*pod.pod.spec.tolerations, *assignment.tolerations)]
    body = {"spec": {"tolerations": all_of}}
    return merge_patch_request("Pod", pod.namespace, pod.name, body, pod.uid)


def patch_request(patch: ObjectPatch) -> api_pb2.PatchRequest:
    """Return the request that writes a plugin's patch."""
    request = merge_patch_request(
        patch.kind, patch.namespace, patch.name, patch.merge_patch, patch.uid
    )
    request.resource_version = int(patch.resource_version or 0)
    return request


def delete_request(deletion: ObjectDeletion) -> api_pb2.DeleteRequest:
    """Return the request that deletes an object for a plugin."""
    request = api_pb2.DeleteRequest(
        kind=deletion.kind, namespace=deletion.namespace, name=deletion.name
    )
    request.preconditions.uid = deletion.uid
    return request
