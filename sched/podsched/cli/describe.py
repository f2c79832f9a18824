"""``sched describe``: one object in detail, with its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from podsched.api.kinds import kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.api.resources import requests_in_units
from podsched.cli.printers import age, node_status, pod_status

NONE = "<none>"


def describe(
    obj: AnyObject, events: Sequence[AnyObject], pods: Sequence[AnyObject], now: float
) -> str:
    """Return the description of an object; ``pods`` are a node's pods."""
    meta = obj.metadata
    lines = [f"Name:          {meta.name}"]
    if meta.namespace:
        lines.append(f"Namespace:     {meta.namespace}")
    lines.append(_mapping("Labels:", meta.labels))
    lines.append(_mapping("Annotations:", meta.annotations))
    kind = kind_of(obj).name
    if kind == "Pod":
        lines += _pod(obj)
    elif kind == "Node":
        lines += _node(obj, pods)
    else:
        lines += _rest(obj)
    lines += _events(events, now)
    return "\n".join(lines)


def _mapping(title: str, entries: Any) -> str:
    shown = [f"{key}={value}" for key, value in sorted(entries.items())] or [NONE]
    return "\n".join(f"{title if i == 0 else '':<15}{entry}" for i, entry in enumerate(shown))


def _pod(pod: Any) -> list[str]:
    lines = [
        f"Status:        {pod_status(pod)}",
        f"Node:          {pod.spec.node_name or NONE}",
        f"Nominated:     {pod.status.nominated_node_name or NONE}",
        f"Priority:      {pod.spec.priority}",
        f"Scheduler:     {pod.spec.scheduler_name}",
        _mapping("Node-Selector:", pod.spec.node_selector),
        "Containers:",
    ]
    for container in pod.spec.containers:
        requests = ", ".join(f"{k}={v}" for k, v in sorted(container.resources.requests.items()))
        lines.append(f"  {container.name}: image {container.image}, requests {requests or NONE}")
    lines.append("Conditions:")
    for condition in pod.status.conditions:
        reason = f" ({condition.reason})" if condition.reason else ""
        message = f": {condition.message}" if condition.message else ""
        lines.append(f"  {condition.type}={condition.status}{reason}{message}")
    return lines


def _node(node: Any, pods: Sequence[Any]) -> list[str]:
    lines = [
        f"Status:        {node_status(node)}",
        f"Unschedulable: {str(node.spec.unschedulable).lower()}",
        "Taints:        "
        + (", ".join(f"{t.key}={t.value}:{t.effect}" for t in node.spec.taints) or NONE),
    ]
    lines.append(_mapping("Allocatable:", node.status.allocatable))
    used: dict[str, int] = {}
    running = [pod for pod in pods if pod.status.phase not in ("Succeeded", "Failed")]
    for pod in running:
        for name, amount in requests_in_units(pod).items():
            used[name] = used.get(name, 0) + amount
    shown = {name: _quantity(name, amount) for name, amount in used.items()}
    lines.append(_mapping("Requested:", shown))
    lines.append(f"Pods:          {len(running)}")
    lines += [f"  {pod.metadata.namespace}/{pod.metadata.name}" for pod in running]
    return lines


def _quantity(resource: str, amount: int) -> str:
    """Return an amount of ``requests_in_units`` as a manifest would have it."""
    if resource == "cpu":
        return f"{amount}m"
    if resource in ("memory", "ephemeral-storage") and amount and amount % 2**20 == 0:
        return f"{amount >> 20}Mi"
    return str(amount)


def _rest(obj: AnyObject) -> list[str]:
    manifest = to_manifest(obj)
    for key in ("apiVersion", "kind", "metadata"):
        manifest.pop(key, None)
    return yaml.safe_dump(manifest, sort_keys=False).rstrip().splitlines() if manifest else []


def _events(events: Sequence[Any], now: float) -> list[str]:
    if not events:
        return [f"Events:        {NONE}"]
    ordered = sorted(events, key=lambda e: (e.last_timestamp.seconds, e.last_timestamp.nanos))
    lines = ["Events:"]
    for event in ordered:
        since = age(now - event.last_timestamp.seconds)
        times = f" (x{event.count})" if event.count > 1 else ""
        source = event.reporting_controller or event.source.component
        lines.append(f"  {event.type} {event.reason} {since} ago{times}, {source}: {event.message}")
    return lines
