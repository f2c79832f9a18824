"""Run Reserve, Permit, Unreserve and PostBind of one pod, with the profile's plugins in order.

Messages are those of kube-scheduler (``framework/runtime`` and ``schedule_one.go``, v1.36). An
exception of a plugin counts as an error status. In Unreserve and PostBind an error changes nothing,
so it is logged and the other plugins run.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from podsched.config.plugins import ExtensionPoint
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.fit_error import fit_error_message
from podsched.framework.status import SUCCESS, Code, Status
from podsched.telemetry.logs import get_logger
from podsched.term.writes.bind_queue import Assignment

RESERVE_WORDING = 'running Reserve plugin "{}"'
PERMIT_WORDING = 'running Permit plugin "{}"'
UNRESERVE_WORDING = 'running Unreserve of plugin "{}"'
POST_BIND_WORDING = 'running PostBind plugin "{}"'

_log = get_logger("plugins")


def run_reserve(runtime: ProfileRuntime, assignment: Assignment) -> Status:
    """Return SUCCESS, or the status of the first plugin that did not reserve."""
    if not runtime.reserve:
        return SUCCESS
    began = time.monotonic()
    status = _reserve(runtime, assignment)
    runtime.meter.passed(ExtensionPoint.RESERVE, status.code, time.monotonic() - began)
    return status


def _reserve(runtime: ProfileRuntime, assignment: Assignment) -> Status:
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    for named in runtime.reserve:
        try:
            status = named.runs.call(
                named.name, RESERVE_WORDING, named.plugin.reserve, state, pod, node
            )
        except PluginFailure as failure:
            named.runs.failed()
            return failure.status
        if status.code is Code.ERROR:
            named.runs.failed()
        if not status.ok:
            return _in_words(status.by(named.name), RESERVE_WORDING)
    return SUCCESS


def run_permit(runtime: ProfileRuntime, assignment: Assignment) -> tuple[Status, dict[str, float]]:
    """Return SUCCESS and the max seconds to wait by plugin, or the first refusal."""
    if not runtime.permit:
        return SUCCESS, {}
    began = time.monotonic()
    status, timeouts = _permit(runtime, assignment)
    code = Code.WAIT if timeouts else status.code
    runtime.meter.passed(ExtensionPoint.PERMIT, code, time.monotonic() - began)
    return status, timeouts


def _permit(runtime: ProfileRuntime, assignment: Assignment) -> tuple[Status, dict[str, float]]:
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    timeouts: dict[str, float] = {}
    for named in runtime.permit:
        try:
            result = named.runs.call(
                named.name, PERMIT_WORDING, named.plugin.permit, state, pod, node
            )
        except PluginFailure as failure:
            return failure.status, {}
        # The other plugins are asked all the same: one of them may reject the pod.
        if result.status.code is Code.WAIT:
            timeouts[named.name] = result.timeout
        elif not result.status.ok:
            return _in_words(result.status.by(named.name), PERMIT_WORDING), {}
    return SUCCESS, timeouts


def refused(status: Status) -> Status:
    """Return a rejection by Reserve or Permit with the message of a FitError for one node.

    kube-scheduler builds it for the node that was chosen. Other statuses are returned unchanged.
    """
    if not status.code.rejects:
        return status
    return replace(status, reasons=(fit_error_message(1, Counter(status.reasons)),))


def run_unreserve(runtime: ProfileRuntime, assignment: Assignment) -> None:
    """Call Unreserve of all Reserve plugins, in reverse order."""
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    # Also of plugins whose Reserve was not called; as in kube-scheduler, they must tolerate that.
    for named in reversed(runtime.reserve):
        try:
            guarded(named.name, UNRESERVE_WORDING, named.plugin.unreserve, state, pod, node)
        except PluginFailure as failure:
            _log.error("A plugin failed", plugin=named.name, error=str(failure))


def run_post_bind(runtime: ProfileRuntime, assignment: Assignment) -> None:
    """Call the PostBind plugins of a pod that is bound."""
    began = time.monotonic()
    _post_bind(runtime, assignment)
    runtime.meter.passed(ExtensionPoint.POST_BIND, Code.SUCCESS, time.monotonic() - began)


def _post_bind(runtime: ProfileRuntime, assignment: Assignment) -> None:
    state, pod, node = assignment.state, assignment.pod, assignment.node_name
    for named in runtime.post_bind:
        try:
            call = named.plugin.post_bind
            named.runs.call(named.name, POST_BIND_WORDING, call, state, pod, node)
        except PluginFailure as failure:
            _log.error("A plugin failed", plugin=named.name, error=str(failure))


def _in_words(status: Status, wording: str) -> Status:
    """Return a status that is not a success with kube-scheduler's message."""
    if status.code.rejects:
        return refused(status)
    text = f"{wording.format(status.plugin)}: {status.message}"
    return replace(status, code=Code.ERROR, reasons=(text,))
