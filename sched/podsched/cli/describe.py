"""``sched describe``: one object in detail, with its events."""

from __future__ import annotations

import base64
import contextlib
import textwrap
import time
from collections.abc import Sequence
from typing import Any, cast

import typer
import yaml

from podsched.api.columns import NONE, last_seen, node_status, node_taints, pod_status
from podsched.api.conditions import is_finished
from podsched.api.hollow_nodes import HOLLOW_TEXT, is_hollow
from podsched.api.kinds import kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Event, Node, Pod, PodGroup, Secret, seconds_of_event
from podsched.api.owners import is_left_alone
from podsched.api.private_fields import LAST_APPLIED
from podsched.api.resources import CPU, MEMORY, requests_in_units
from podsched.api.service_accounts import MIRROR_POD
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.devices import claim_lines, claims_of
from podsched.cli.errors import FAILED, report
from podsched.cli.node_usage import humanised, requested_on, usage_rows
from podsched.cli.options import LabelSelector
from podsched.cli.output import say
from podsched.cli.printers import aligned, terminal_width
from podsched.cli.targets import Targets, nothing_found, parse_targets, resolve
from podsched.lib.printable import printable_line
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Forbidden, NotFound, Unavailable

#: Max members of a pod group that are shown.
_MAX_MEMBERS = 40
_UNREADABLE = "may not be read"
NO_CONTROLLER = "none has processed it, so it makes no pods"


def describe(
    targets: Targets,
    server: Server = "",
    namespace: Namespace = "default",
    selector: LabelSelector = "",
) -> None:
    """Show objects in detail, with their events."""

    async def work(client: ApiClient) -> bool:
        failed, first = False, True
        named = parse_targets(targets, namespace)
        wanted = await resolve(client, named, selector)
        for target in wanted:
            about = target.event_selector
            try:
                obj = await target.get(client)
                events = events_of(obj, await _listed(client, "Event", target.namespace, about))
                others = await _others(client, obj)
            except Unavailable:
                raise
            except ClientError as exc:
                failed = True
                report(exc)
                continue
            if not first:
                say("\n")
            first = False
            say(description(obj, events, others, time.time()))
        if not wanted:
            say(nothing_found(named), error=True)
        return failed

    if with_client(server, work):
        raise typer.Exit(FAILED)


async def _listed(
    client: ApiClient, kind: str, namespace: str, field_selector: str = ""
) -> list[AnyObject] | None:
    """Return objects; None if they may not be read."""
    try:
        return (await client.list(kind, namespace, field_selector=field_selector)).items
    except Forbidden:
        return None


def events_of(obj: AnyObject, named: list[AnyObject] | None) -> list[AnyObject] | None:
    """Return the events about an object, without those about an earlier one of its name.

    As in Kubernetes, the uid in events about a node may be its name, and that in events about a
    static pod is in an annotation.
    """
    meta = obj.metadata
    same = ("", meta.uid, meta.name, meta.annotations.get(MIRROR_POD))
    return named and [each for each in cast(list[Event], named) if each.involved_object.uid in same]


async def _others(client: ApiClient, obj: AnyObject) -> list[AnyObject] | None:
    """Return the pods of a node or pod group; the claims and node of a pod that may be read."""
    if isinstance(obj, Node):
        return await _listed(client, "Pod", "", f"spec.nodeName={obj.metadata.name}")
    if isinstance(obj, PodGroup):
        name, pods = obj.metadata.name, await _listed(client, "Pod", obj.metadata.namespace)
        if pods is None:
            return None
        return [p for p in cast(list[Pod], pods) if p.spec.scheduling_group.pod_group_name == name]
    if isinstance(obj, Pod):
        found = await claims_of(client, obj)
        if obj.spec.node_name:
            with contextlib.suppress(NotFound, Forbidden):
                found.append(await client.get("Node", obj.spec.node_name))
        return found
    return []


def description(
    obj: AnyObject,
    events: Sequence[AnyObject] | None,
    others: Sequence[AnyObject] | None,
    now: float,
) -> str:
    """Return an object's description; None: may not be read. ``others``: see ``_others``."""
    meta = obj.metadata
    lines = [f"Name:          {meta.name}"]
    if meta.namespace:
        lines.append(f"Namespace:     {meta.namespace}")
    lines += _mapping("Labels:", meta.labels)
    shown = {key: text for key, text in meta.annotations.items() if key != LAST_APPLIED}
    lines += _mapping("Annotations:", shown)
    kind = kind_of(obj).name
    if kind == "Pod":
        lines += _pod(obj, others or ())
    elif kind == "Node":
        lines += _node(obj, others)
    elif kind == "ResourceQuota":
        lines += _quota(obj)
    elif kind == "LimitRange":
        lines += _limits(obj)
    else:
        if is_left_alone(obj):
            lines.append(f"Controller:    {NO_CONTROLLER}")
        lines += _rest(obj)
        if kind == "PodGroup":
            lines += _pod_group(others)
    lines += _events(events, now)
    return "\n".join(map(printable_line, lines))


def _mapping(title: str, entries: Any) -> list[str]:
    shown = [f"{key}={value}" for key, value in sorted(entries.items())] or [NONE]
    return [f"{title if i == 0 else '':<15}{entry}" for i, entry in enumerate(shown)]


def _pod(pod: Any, others: Sequence[Any]) -> list[str]:
    claims = [item for item in others if not isinstance(item, Node)]
    on_hollow = any(isinstance(item, Node) and is_hollow(item) for item in others)
    lines = [
        f"Status:        {pod_status(pod)}",
        f"Node:          {pod.spec.node_name or NONE}{f', a {HOLLOW_TEXT}' if on_hollow else ''}",
        f"Nominated:     {pod.status.nominated_node_name or NONE}",
        f"Priority:      {pod.spec.priority}",
        f"Scheduler:     {pod.spec.scheduler_name}",
        *_mapping("Node-Selector:", pod.spec.node_selector),
        "Containers:",
    ]
    for container in pod.spec.containers:
        requests = ", ".join(f"{k}={v}" for k, v in sorted(container.resources.requests.items()))
        lines.append(f"  {container.name}: image {container.image}, requests {requests or NONE}")
    for line in claim_lines(pod, claims):
        lines += _wrapped(line)
    return [*lines, "Conditions:", *_conditions(pod.status.conditions)]


def _conditions(conditions: Sequence[Any]) -> list[str]:
    lines = []
    for condition in conditions:
        reason = f" ({condition.reason})" if condition.reason else ""
        message = f": {condition.message}" if condition.message else ""
        lines += _wrapped(f"  {condition.type}={condition.status}{reason}{message}")
    return lines


def _wrapped(line: str) -> list[str]:
    """Return a line, wrapped at the terminal's width."""
    width = terminal_width()
    if width is None or len(line) <= width:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent="    ", break_on_hyphens=False)


def _node(node: Any, pods: Sequence[Any] | None) -> list[str]:
    lines = [
        f"Status:        {node_status(node)}",
        *([f"Hollow:        yes, a {HOLLOW_TEXT}"] if is_hollow(node) else []),
        f"Unschedulable: {str(node.spec.unschedulable).lower()}",
        f"Taints:        {node_taints(node, 0)}",
    ]
    running = [pod for pod in pods or () if not is_finished(pod)]
    used = requested_on(running).get(node.metadata.name, {})
    rows = [["  RESOURCE", "REQUESTED", "ALLOCATABLE", "SHARE"]]
    for name, requested, has, share in usage_rows(node, used):
        rows.append([f"  {name}", *(("?", has, "?") if pods is None else (requested, has, share))])
    lines += ["Resources:", *aligned(rows)]
    lines.append(f"Conditions:    {NONE}" if not node.status.conditions else "Conditions:")
    lines += _conditions(node.status.conditions)
    if not running:
        return [*lines, f"Pods:          {NONE if pods is not None else _UNREADABLE}"]
    rows = [["  NAMESPACE", "NAME", "CPU", "MEMORY", "PRIORITY"]]
    for pod in running:
        asked = requests_in_units(pod)
        cells = [humanised(name, asked.get(name, 0)) for name in (CPU, MEMORY)]
        meta = pod.metadata
        rows.append([f"  {meta.namespace}", meta.name, *cells, str(pod.spec.priority)])
    return [*lines, f"Pods ({len(running)}):", *aligned(rows)]


def _pod_group(pods: Sequence[Any] | None) -> list[str]:
    """Return the members, those without a node first."""
    if not pods:
        return [f"Members:       {NONE if pods is not None else _UNREADABLE}"]
    rows = [["  NAME", "STATUS", "NODE"]]
    for pod in sorted(pods, key=lambda pod: bool(pod.spec.node_name))[:_MAX_MEMBERS]:
        rows.append([f"  {pod.metadata.name}", pod_status(pod), pod.spec.node_name or NONE])
    lines = [f"Members ({len(pods):,}):", *aligned(rows)]
    hidden = len(pods) - _MAX_MEMBERS
    return [*lines, f"  and {hidden:,} more"] if hidden > 0 else lines


def _quota(quota: Any) -> list[str]:
    used = quota.status.used
    rows = [[name, used.get(name, "?"), hard] for name, hard in sorted(quota.spec.hard.items())]
    return _ruled(["Resource", "Used", "Hard"], rows)


def _limits(limits: Any) -> list[str]:
    bounds = ["Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"]
    rows = []
    for item in limits.spec.limits:
        ratio = item.max_limit_request_ratio
        values = [item.min, item.max, item.default_request, item.default, ratio]
        for resource in sorted({name for amounts in values for name in amounts}):
            rows.append([item.type, resource, *(each.get(resource, "-") for each in values)])
    return _ruled(["Type", "Resource", *bounds], rows)


def _ruled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table with a line of dashes below its head, as kubectl describes quotas."""
    return aligned([head, ["-" * len(title) for title in head], *rows])


def _rest(obj: AnyObject) -> list[str]:
    manifest = to_manifest(obj)
    for key in ("apiVersion", "kind", "metadata"):
        manifest.pop(key, None)
    if isinstance(obj, Secret):
        # Base64 hides nothing from those who look over a shoulder.
        sizes = {key: len(base64.b64decode(value)) for key, value in obj.data.items()}
        manifest["data"] = {key: f"{size} bytes" for key, size in sorted(sizes.items())}
    return yaml.safe_dump(manifest, sort_keys=False).rstrip().splitlines() if manifest else []


def _events(events: Sequence[Any] | None, now: float) -> list[str]:
    if not events:
        return [f"Events:        {NONE if events is not None else _UNREADABLE}"]
    lines = ["Events:"]
    for event in sorted(events, key=seconds_of_event):
        since, count = last_seen(event, now), max(event.count, event.series.count)
        times = f" (x{count})" if count > 1 else ""
        source = event.reporting_controller or event.source.component
        lines += _wrapped(
            f"  {event.type} {event.reason} {since} ago{times}, {source}: {event.message}"
        )
    return lines
