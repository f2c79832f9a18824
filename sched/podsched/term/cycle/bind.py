"""Call the Bind plugins of the profile in order, until one accepts the pod.

Source: RunBindPlugins in ``framework/runtime/framework.go`` of kube-scheduler v1.36, with its
messages. One exception: if no plugin accepts the pod, v1.36 has an empty message; here it is the
message of older releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.term.writes.bind_queue import Assignment

BIND_WORDING = 'running Bind plugin "{}"'


def asks_bind_plugins(runtime: ProfileRuntime) -> bool:
    """Whether a plugin may refuse or skip a pod; False if the default binder comes first."""
    return not runtime.bind or not runtime.bind[0].traits.binds_every_pod


def run_bind(runtime: ProfileRuntime, assignment: Assignment) -> Status:
    """Return SUCCESS if a plugin accepts the pod, else why the pod is not bound."""
    for named in runtime.bind:
        if named.traits.binds_every_pod:
            return SUCCESS
        call: Callable[..., Status] = named.plugin.bind
        state, pod, node = assignment.state, assignment.pod, assignment.node_name
        try:
            status = named.runs.call(named.name, BIND_WORDING, call, state, pod, node)
        except PluginFailure as failure:
            return failure.status
        if status.skipped:
            continue
        if status.ok:
            return SUCCESS
        if status.code.rejects:
            return status.by(named.name)
        text = f"{BIND_WORDING.format(named.name)}: {status.message}"
        return replace(status, code=Code.ERROR, reasons=(text,), plugin=named.name)
    return error(f"bind status: {Code.SKIP.text}, ")
