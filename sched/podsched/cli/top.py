"""``sched top``: show nodes, pods or waiting pods live in the terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, cast, get_args

import typer

from podsched.api.columns import NONE, node_status, pod_status
from podsched.api.conditions import FALSE, condition_of, is_finished
from podsched.api.objects import Node, Pod, key_of, object_key, seconds_of
from podsched.api.resources import CPU, MEMORY, PODS, readable_allocatable, requests_in_units
from podsched.cli.client import Namespace, Outage, ServerFlags, with_client
from podsched.cli.flags import takes_flags
from podsched.cli.get import AllNamespaces
from podsched.cli.node_usage import humanised, requested_on, usage_cells
from podsched.cli.output import say
from podsched.cli.printers import wrapped
from podsched.cli.redraw import is_terminal, redrawn
from podsched.config.flags import flag
from podsched.lib.ages import age
from podsched.lib.counted import counted
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Compacted
from podsched.serve.client.object_watch import Change, ChangeType, watch_objects

#: Seconds over which the rate of bindings is counted.
_RATE_WINDOW = 10.0
_LONGEST_REASON = 200


#: What is shown.
TopView = Literal["nodes", "pods", "queues"]
#: The column by which rows are sorted.
Order = Literal["cpu", "memory", "pods", "name"]


@dataclass(slots=True)
class View:
    """The current nodes and pods of a cluster.

    ``namespace``: the namespace of the pods to show; "" for all. Nodes count the pods of all
    namespaces. ``bound_at``: the times of the latest bindings, monotonic, in seconds.
    """

    namespace: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    bound_at: list[float] = field(default_factory=list)
    #: Why the objects may be outdated; "" while an API server answers.
    outage: str = ""

    def apply(self, change: Change, now: float) -> None:
        """Apply a change; ``now``: monotonic time in seconds."""
        key = object_key(change.object)
        if isinstance(change.object, Node):
            self.nodes[key] = change.object
            if change.type is ChangeType.DELETED:
                del self.nodes[key]
            return
        pod, before = cast(Pod, change.object), self.pods.get(key)
        if change.type is ChangeType.DELETED:
            self.pods.pop(key, None)
            return
        if before is not None and pod.spec.node_name and not before.spec.node_name:
            self.bound_at.append(now)
        self.pods[key] = pod

    def bound_per_second(self, now: float) -> float:
        """Return the number of bindings per second in the last seconds."""
        self.bound_at = [at for at in self.bound_at if at > now - _RATE_WINDOW]
        return len(self.bound_at) / _RATE_WINDOW

    def shown_pods(self) -> list[Pod]:
        """Return the pods of the namespace."""
        chosen = self.namespace
        return [p for p in self.pods.values() if not chosen or p.metadata.namespace == chosen]


def summary(view: View) -> str:
    """Return one line about the cluster."""
    waiting = sum(not p.spec.node_name and not is_finished(p) for p in view.pods.values())
    ready = sum(node_status(node) == "Ready" for node in view.nodes.values())
    nodes, pods = counted(len(view.nodes), "node"), counted(len(view.pods), "pod")
    return f"{nodes}, {ready:,} ready; {pods}, {waiting:,} waiting"


def node_rows(view: View, order: Order) -> list[list[str]]:
    """Return the requests of the pods on each node; the fullest first, unless sorted by name."""
    requested = requested_on(view.pods.values())
    sortable = []
    for name, node in view.nodes.items():
        used, has = requested.get(name, {}), readable_allocatable(node)
        shares = {r: used.get(r, 0) / has[r] if has.get(r) else 0.0 for r in (CPU, MEMORY, PODS)}
        cpu, memory, pods = usage_cells(node, used)
        percent = [f"{shares[resource]:.0%}" for resource in (CPU, MEMORY)]
        row = [name, node_status(node), cpu, percent[0], memory, percent[1], pods]
        share = 0.0 if order == "name" else shares[order]
        sortable.append((-share, name, row))
    rows = [row for _, _, row in sorted(sortable, key=lambda item: item[:2])]
    return [["NODE", "STATUS", "CPU", "%", "MEMORY", "%", "PODS"], *rows]


def pod_rows(view: View, order: Order, now: float) -> list[list[str]]:
    """Return the requests of each pod; the largest first, unless sorted by name."""
    sortable = []
    for pod in view.shown_pods():
        if is_finished(pod):
            continue
        wants = requests_in_units(pod)
        name = pod.metadata.name if view.namespace else key_of(pod)
        row = [
            name,
            pod_status(pod),
            humanised(CPU, wants.get(CPU, 0)),
            humanised(MEMORY, wants.get(MEMORY, 0)),
            pod.spec.node_name or NONE,
            age(now - _created(pod)),
        ]
        amount = wants.get(order, 0) if order in (CPU, MEMORY) else 0
        sortable.append((-amount, name, row))
    rows = [row for _, _, row in sorted(sortable, key=lambda item: item[:2])]
    return [["POD", "STATUS", "CPU", "MEMORY", "NODE", "AGE"], *rows]


def queue_rows(view: View, now: float) -> list[list[str]]:
    """Return the numbers of waiting pods by reason, the most frequent first.

    The reasons are those in the pods' conditions. Only the scheduler knows which pods are in
    backoff.
    """
    counts: Counter[tuple[str, str]] = Counter()
    oldest: dict[tuple[str, str], Pod] = {}
    for pod in view.shown_pods():
        if pod.spec.node_name or is_finished(pod):
            continue
        key = _waits_for(pod)
        counts[key] += 1
        first = oldest.setdefault(key, pod)
        if _created(pod) < _created(first):
            oldest[key] = pod
    rows = []
    for (state, reason), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        pod = oldest[state, reason]
        rows.append([state, str(count), age(now - _created(pod)), key_of(pod), reason])
    return [["STATE", "PODS", "OLDEST", "SUCH AS", "REASON"], *rows]


def _created(pod: Pod) -> float:
    return seconds_of(pod.metadata.creation_timestamp)


def _waits_for(pod: Pod) -> tuple[str, str]:
    if pod.spec.scheduling_gates:
        return "gated", ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    if pod.status.nominated_node_name:
        return "nominated", f"room on {pod.status.nominated_node_name}"
    condition = condition_of(pod.status, "PodScheduled")
    if condition is None or condition.status != FALSE:
        return "to be tried", ""
    state = "error" if condition.reason == "SchedulerError" else "unschedulable"
    return state, condition.message[:_LONGEST_REASON]


Rows = Callable[[], list[list[str]]]
_NAMES = {"node": "nodes", "no": "nodes", "pod": "pods", "po": "pods", "queue": "queues"}


def _view_named(text: str) -> str:
    """Return the view of a name, also in the singular. Raises BadParameter for other names."""
    name = _NAMES.get(text.lower(), text.lower())
    if name not in get_args(TopView):
        raise typer.BadParameter(f"'{text}' is none of {', '.join(get_args(TopView))}")
    return name


WhatArgument = Annotated[
    TopView, typer.Argument(parser=_view_named, metavar="VIEW", help="What to show.")
]


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    sort_by: Order = flag("cpu")
    """Largest first by cpu, memory or pods, or by name."""
    interval: float = flag(1.0, "SECONDS", min=0.1, max=3600)
    """Time between redraws."""
    once: bool = flag(False)
    """Print once and exit."""


@takes_flags
def top(
    given: _Flags,
    what: WhatArgument = "nodes",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
) -> None:
    """Show live the usage of nodes, or why pods wait.

    Usage is the sum of the requests of pods, which is what scheduling uses.
    Ctrl-C ends it. Without a terminal it prints once.
    """
    everywhere = all_namespaces or what == "nodes"
    view = View("" if everywhere else namespace)

    def rows() -> list[list[str]]:
        now = time.time()
        if what == "nodes":
            return node_rows(view, given.sort_by)
        return pod_rows(view, given.sort_by, now) if what == "pods" else queue_rows(view, now)

    if given.once or not is_terminal():
        with_client(given.server, lambda client: _load(client, view))
        found = rows()
        if len(found) > 1:
            say(*wrapped(found))
        else:
            say("No pods wait." if what == "queues" else f"No {what} found.", error=True)
        return
    with_client(
        given.server, lambda client: _live(client, view, rows, given.interval, f"top {what}")
    )


async def _load(client: ApiClient, view: View) -> int:
    """Fill the view; return a revision from which to watch."""
    nodes = await client.list("Node")
    pods = (await client.list("Pod")).items
    view.nodes = {node.metadata.name: cast(Node, node) for node in nodes.items}
    view.pods = {key_of(cast(Pod, pod)): cast(Pod, pod) for pod in pods}
    return nodes.revision


async def _live(client: ApiClient, view: View, rows: Rows, interval: float, title: str) -> None:
    # Before the terminal's screen is used, because this fails if no server answers.
    revision = await _load(client, view)

    def lines(width: int, height: int) -> Sequence[str]:
        rate = view.bound_per_second(time.monotonic())
        head = f"{title}  {time.strftime('%H:%M:%S')}  {summary(view)}; {rate:g} bound/s"
        return [head, view.outage, *cropped(wrapped(rows()), height - 2)]

    async with redrawn(lines, interval, whole_screen=True):
        await follow(client, view, revision)


async def follow(client: ApiClient, view: View, revision: int) -> None:
    """Apply the changes after a revision, for ever."""

    def tell(begins: bool) -> None:
        since = f"No API server answers since {time.strftime('%H:%M:%S')}; trying again."
        view.outage = since if begins else ""

    outage = Outage(tell)
    while True:
        try:
            async for change in watch_objects(
                client, ["Node", "Pod"], from_revision=revision, on_reached=outage
            ):
                view.apply(change, time.monotonic())
        except Compacted:
            # All objects come anew, as soon as a server answers.
            view.nodes, view.pods, revision = {}, {}, 0


def cropped(lines: Sequence[str], height: int) -> list[str]:
    """Return a table's first lines; if rows are left out, the last line is their number."""
    if len(lines) <= height:
        return list(lines)
    shown = max(height - 1, 1)
    return [*lines[:shown], f"... {len(lines) - shown} more"]
