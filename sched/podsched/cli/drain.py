"""``sched drain``: evict the pods of nodes for maintenance, as disruption budgets permit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import typer

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.objects import Pod, key_of
from podsched.api.service_accounts import is_mirror_pod
from podsched.cli.client import ServerFlags, with_client
from podsched.cli.edit import nodes_of, tell_unschedulable
from podsched.cli.errors import FAILED, USAGE, fail, fail_if_cut_short, report
from podsched.cli.flags import takes_flags
from podsched.cli.options import (
    DryRun,
    DryRunOption,
    GracePeriod,
    LabelSelector,
    Timeout,
    seconds_or_fail,
)
from podsched.cli.output import say
from podsched.cli.progress import progress_bar
from podsched.cli.targets import OptionalNodes
from podsched.config.flags import flag
from podsched.lib.counted import counted
from podsched.lib.tasks import task_group
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import (
    ClientError,
    DisruptionBudget,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from podsched.v1.api_pb2 import EvictRequest, Preconditions

#: Seconds after which an eviction that a budget forbids is tried again, as in kubectl.
_BUDGET_PAUSE = 5.0
_GONE_PAUSE = 0.2
_EVICTIONS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Rules(ServerFlags):
    """The pods that may be evicted, and their grace period."""

    force: bool = flag(False)
    """Also evict pods that no controller would replace."""
    ignore_daemonsets: bool = flag(False)
    """Leave the pods of DaemonSets on the node."""
    delete_emptydir_data: bool = flag(False)
    """Also evict pods with emptyDir volumes; their data is lost."""
    pod_selector: str = flag("", "SELECTOR")
    """Evict only pods with these labels, and leave the others on the node."""
    grace_period: int | None = None


DAEMON_SET = "of a DaemonSet (--ignore-daemonsets leaves them)"
UNMANAGED = "that no controller would replace (--force evicts them)"
LOCAL_DATA = "with data in emptyDir volumes (--delete-emptydir-data evicts them)"
_NAMES_SHOWN = 5


@dataclass(slots=True)
class Plan:
    """The plan to drain a node: the pods to evict, and those that block it, by reason."""

    evict: list[Pod] = field(default_factory=list)
    obstacles: dict[str, list[str]] = field(default_factory=dict)

    def errors(self) -> list[str]:
        """Return a line for each reason."""
        return [f"cannot evict {_pods(names, reason)}" for reason, names in self.obstacles.items()]


def _pods(names: Sequence[str], what: str) -> str:
    """Return a text with the number of pods, and the first of their names."""
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    return f"{counted(len(names), 'pod')} {what}: {shown}"


def plan(pods: Sequence[Any], rules: Rules) -> Plan:
    """Return the plan for the pods of a node, by kubectl's rules."""
    found = Plan()
    for pod in pods:
        if is_mirror_pod(pod):
            continue
        owners = [owner.kind for owner in pod.metadata.owner_references if owner.controller]
        if "DaemonSet" in owners and rules.ignore_daemonsets and not is_finished(pod):
            continue
        obstacle = _obstacle(pod, owners, rules)
        if obstacle:
            found.obstacles.setdefault(obstacle, []).append(key_of(pod))
        else:
            found.evict.append(pod)
    return found


def _obstacle(pod: Any, owners: Sequence[str], rules: Rules) -> str:
    """Return why a pod must not be evicted; "" if it may be."""
    if is_finished(pod) or is_terminating(pod):
        return ""
    if "DaemonSet" in owners:
        return DAEMON_SET
    if not owners and not rules.force:
        return UNMANAGED
    local_data = any(volume.HasField("empty_dir") for volume in pod.spec.volumes)
    return LOCAL_DATA if local_data and not rules.delete_emptydir_data else ""


@takes_flags
def drain(
    rules: Rules,
    names: OptionalNodes = None,
    dry_run: DryRunOption = DryRun.NONE,
    selector: LabelSelector = "",
    grace_period: GracePeriod = -1,
    timeout: Timeout = "0s",
) -> None:
    """Cordon nodes and evict their pods, as far as disruption budgets permit.

    Waits until the pods are gone. An eviction that a budget forbids is tried
    again every 5 seconds until --timeout (0s: for ever).
    """
    if bool(names) == bool(selector):
        fail("use either NODE... or -l SELECTOR", USAGE)
    seconds_or_fail("--timeout", timeout)  # exits if it is malformed
    rules = replace(rules, grace_period=None if grace_period < 0 else grace_period)

    async def work(client: ApiClient) -> int:
        nodes = await nodes_of(names, selector)(client)
        return await drain_nodes(client, nodes, rules, timeout, dry_run)

    with fail_if_cut_short():
        failures = with_client(rules.server, work)
    if failures:
        raise typer.Exit(FAILED)


async def drain_nodes(
    client: ApiClient, nodes: Sequence[str], rules: Rules, timeout: str, dry_run: DryRun
) -> int:
    """Drain nodes, each within ``timeout``. Returns the number of failures.

    All are cordoned first: no pod shall move to a node that is drained next.
    """
    if not nodes:
        say("No resources found.", error=True)
    failures, cordoned = 0, []
    for node in nodes:
        try:
            await tell_unschedulable(client, node, True, dry_run)
            cordoned.append(node)
        except NotFound as exc:
            failures += 1
            report(exc)
    for node in cordoned:
        try:
            async with asyncio.timeout(seconds_or_fail("--timeout", timeout) or None):
                failures += await _drain(client, node, rules, dry_run)
        except TimeoutError:
            failures += 1
            say(f"error: node/{node} not drained within {timeout}", error=True)
    return failures


async def _drain(client: ApiClient, node: str, rules: Rules, dry_run: DryRun) -> int:
    """Evict the pods of a cordoned node. Returns the number of failures."""
    on_node = f"spec.nodeName={node}"
    pods = (
        await client.list("Pod", label_selector=rules.pod_selector, field_selector=on_node)
    ).items
    todo = plan(pods, rules)
    if todo.obstacles:
        say(*(f"error: node/{node}: {line}" for line in todo.errors()), error=True)
        return 1
    if dry_run.asked:
        refused = [await _try_evicting(client, pod, rules.grace_period) for pod in todo.evict]
        return sum(refused)
    return await _evict_all(client, node, todo.evict, rules.grace_period)


async def _evict_all(client: ApiClient, node: str, pods: Sequence[Pod], grace: int | None) -> int:
    """Evict pods and print each; return the number of failures. Raises Unavailable.

    If it ends before all are gone, the remaining pods are printed.
    """
    at_once = asyncio.Semaphore(_EVICTIONS_AT_ONCE)
    left = {pod.metadata.uid: pod.metadata.name for pod in pods}

    async def one(pod: Pod) -> None:
        name = pod.metadata.name
        try:
            if not is_terminating(pod):
                async with at_once:
                    await _evict(client, pod, grace)
            await _wait_until_gone(client, pod)
        except Unavailable:
            raise
        except ClientError as error:
            report(error, f"pod/{name}: ")
            return
        del left[pod.metadata.uid]
        say(f"pod/{name} evicted ({len(left)} left)")
        advance()

    try:
        with progress_bar("pods", len(pods), fewest=2) as advance:
            async with task_group() as group:
                for pod in pods:
                    group.create_task(one(pod))
    finally:
        if left:
            say(
                f"node/{node} stays cordoned, with {_pods([*left.values()], 'left to go')}\n"
                "to continue, repeat the command; "
                f"to let the node accept pods again: sched uncordon {node}",
                error=True,
            )
    if not left:
        say(f"node/{node} drained")
    return len(left)


def eviction(pod: Pod, **more: Any) -> EvictRequest:
    """Return the request to evict this pod, and no other one of its name."""
    meta = pod.metadata
    same = Preconditions(uid=meta.uid)
    return EvictRequest(namespace=meta.namespace, name=meta.name, preconditions=same, **more)


async def _try_evicting(client: ApiClient, pod: Pod, grace: int | None) -> bool:
    """Print whether the pod could be evicted now, if it were the only one.

    Returns whether it could not be evicted later either. Raises Unavailable.
    """
    name, suffix = pod.metadata.name, DryRun.SERVER.suffix
    try:
        await client.evict(eviction(pod, grace_period_seconds=grace, dry_run=True))
    except (NotFound, PreconditionFailed):
        return False
    except DisruptionBudget as refusal:
        say(f"pod/{name} would wait{suffix}: {refusal}")
    except Unavailable:
        raise
    except ClientError as error:
        report(error, f"pod/{name}: ")
        return True
    else:
        say(f"pod/{name} would be evicted{suffix}")
    return False


async def _evict(client: ApiClient, pod: Pod, grace: int | None) -> None:
    """Evict a pod as soon as budgets permit it."""
    request = eviction(pod, grace_period_seconds=grace)
    waiting = in_doubt = False
    with suppress(NotFound, PreconditionFailed):
        while True:
            try:
                await client.evict(request)
                return
            except OutcomeUnknown:
                if in_doubt:
                    raise
                in_doubt = True  # Once more, on the next server: with a uid it evicts no other pod.
            except DisruptionBudget as refusal:
                if not waiting:
                    say(f"pod/{pod.metadata.name} waits: {refusal}", error=True)
                waiting = True
                await asyncio.sleep(_BUDGET_PAUSE)


async def _wait_until_gone(client: ApiClient, pod: Pod) -> None:
    meta = pod.metadata
    with suppress(NotFound):
        while True:
            if (await client.get("Pod", meta.name, meta.namespace)).metadata.uid != meta.uid:
                return
            await asyncio.sleep(_GONE_PAUSE)
