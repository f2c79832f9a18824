"""``sched status``: show the leader, the standbys, and the addresses of the cluster's parts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer

from podsched.api.codec import format_time
from podsched.api.hollow_nodes import is_hollow
from podsched.api.objects import ClusterQueue, Lease, Node, Pod, seconds_of
from podsched.api.owners import CONTROLLED_KINDS, OWN_KINDS, is_left_alone
from podsched.app.leader_requests import REASON, pause_name
from podsched.app.replica_lease import (
    COMPONENT,
    DEFAULT_LOCK,
    LABEL,
    NAMESPACE,
    published,
    state_of,
    whole,
)
from podsched.cli.client import Server, with_client
from podsched.cli.errors import USAGE, fail
from podsched.cli.output import show_answer
from podsched.cli.printers import aligned
from podsched.lib.ages import age
from podsched.lib.counted import counted
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Forbidden, NotFound


def check_lock(lock: str) -> None:
    """Exit unless ``--lock`` is NAMESPACE/NAME."""
    namespace, _, name = lock.partition("/")
    if not namespace or not name or "/" in name:
        fail(f'--lock: "{lock}" is not NAMESPACE/NAME', USAGE)


async def lock_record(client: ApiClient, lock: str) -> Lease:
    """Return the Lease of the replicas' leader election; an empty one if there is none."""
    namespace, _, name = lock.partition("/")
    try:
        return cast(Lease, await client.get("Lease", name, namespace))
    except NotFound:
        return Lease()


async def replica_leases(client: ApiClient) -> list[Lease]:
    """Return the Leases in which the replicas publish their states."""
    found = await client.list("Lease", NAMESPACE, label_selector=f"{LABEL}={COMPONENT}")
    return cast(list[Lease], found.items)


async def collect(client: ApiClient, lock: str) -> dict[str, Any]:
    """Return the state of the replicas, the lock and the cluster as plain data."""
    now = time.time()
    record = await lock_record(client, lock)
    replicas = [_replica(lease, record, now) for lease in await replica_leases(client)]
    pods = cast(list[Pod], (await client.list("Pod")).items)
    nodes = cast(list[Node], (await client.list("Node")).items)
    about = [r for r in replicas if r["state"] != "gone"]
    try:
        found: Any = await client.get("Lease", pause_name(lock), lock.partition("/")[0])
        paused = {
            "by": found.spec.holder_identity,
            "since": format_time(found.spec.acquire_time),
            "reason": found.metadata.annotations.get(REASON, ""),
        }
    except NotFound:
        paused = None
    return {
        "paused": paused,
        "leader": record.spec.holder_identity,
        "transitions": record.spec.lease_transitions,
        "renewTime": format_time(record.spec.renew_time) if record.spec.holder_identity else "",
        "replicas": replicas,
        "endpoints": {
            "api": sorted({r["api"] for r in about if r["api"]} | {client.channels.endpoint}),
            "etcd": sorted({e for r in about for e in r["etcd"].split(",") if e}),
        },
        "nodes": len(nodes),
        "hollowNodes": sum(map(is_hollow, nodes)),
        "pods": {
            "bound": sum(bool(p.spec.node_name) for p in pods),
            "pending": sum(not p.spec.node_name for p in pods),
        },
        "queues": await queue_counts(client),
        "withoutController": await without_controller(client),
    }


async def queue_counts(client: ApiClient) -> dict[str, int] | None:
    """Return the number of ClusterQueues, and of waiting and admitted units by their statuses.

    Return None without ClusterQueues, or if they may not be read.
    """
    try:
        items = cast(list[ClusterQueue], (await client.list("ClusterQueue")).items)
    except Forbidden:
        return None
    if not items:
        return None
    return {
        "clusterQueues": len(items),
        "waiting": sum(item.status.pending_workloads for item in items),
        "admitted": sum(item.status.admitted_workloads for item in items),
    }


async def without_controller(client: ApiClient) -> dict[str, int]:
    """Return the number of workloads of each kind without a controller."""
    counts = {}
    for kind in CONTROLLED_KINDS:
        try:
            items = (await client.list(kind)).items
        except Forbidden:
            continue  # the rest of the state can still be shown
        if count := sum(map(is_left_alone, items)):
            counts[kind] = count
    return counts


def left_alone_text(kind: str, count: int) -> str:
    """Return a text about workloads without a controller."""
    what = f"{counted(count, kind)} {'makes' if count == 1 else 'make'}"
    them = "it" if count == 1 else "them"
    if kind in OWN_KINDS:
        return f"{what} no pods: no controller has processed {them}"
    return f"{what} no pods: podsched has no controller for {them}"


def _hollow_text(hollow: int, nodes: int) -> str:
    if not hollow:
        return ""
    return f", {'all' if hollow == nodes else hollow} hollow: nothing runs on them"


def _replica(lease: Lease, record: Lease, now: float) -> dict[str, Any]:
    about, seen = published(lease), now - seconds_of(lease.spec.renew_time)
    state = state_of(lease, record.spec.holder_identity, seen)
    leading = state == "leading"
    return {
        "identity": lease.spec.holder_identity,
        "pid": whole(about.get("pid", "")),
        "host": about.get("host", ""),
        "state": state,
        "term": whole(about.get("term", "")) if leading else None,
        "transitions": record.spec.lease_transitions,
        "renewTime": format_time((record if leading else lease).spec.renew_time),
        "seenSecondsAgo": round(max(0.0, seen), 1),
        "health": about.get("health", ""),
        "api": about.get("api", ""),
        "etcd": about.get("etcd", ""),
        "setAside": whole(about.get("set-aside", "")),
    }


def status(
    server: Server = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    lock: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE/NAME",
            help="Lease of the replicas' leader election: leaderElection.resourceNamespace and "
            "resourceName in their configuration.",
        ),
    ] = DEFAULT_LOCK,
) -> None:
    """Show the scheduler replicas, the leader, and the cluster's addresses."""
    check_lock(lock)
    state = with_client(server, lambda client: collect(client, lock))
    show_answer(state, status_lines(state), as_json=as_json)


def status_lines(state: dict[str, Any]) -> Iterator[str]:
    """Yield the state as text; ``state``: see ``collect``."""
    rows = [["REPLICA", "PID", "STATE", "TERM", "LAST SEEN", "HEALTH"]]
    rows += [
        [
            replica["identity"],
            str(replica["pid"]),
            replica["state"],
            str(replica["term"] or "-"),
            f"{age(replica['seenSecondsAgo'])} ago",
            replica["health"].removeprefix("http://"),
        ]
        for replica in sorted(state["replicas"], key=lambda r: str(r["identity"]))
    ]
    yield from aligned(rows) if state["replicas"] else ["No scheduler replicas found."]
    pods = state["pods"]
    yield ""
    if paused := state["paused"]:
        why = f": {paused['reason']}" if paused["reason"] else ""
        yield f"PAUSED   by {paused['by']} since {paused['since']}{why}"
        yield "         Nothing is scheduled until sched leader resume."
    transitions = counted(state["transitions"], "transition")
    yield f"Leader:  {state['leader'] or 'none'}, {transitions}"
    if state["renewTime"]:
        yield f"Renewed: {state['renewTime']}"
    yield f"API:     {', '.join(state['endpoints']['api'])}"
    yield f"etcd:    {', '.join(state['endpoints']['etcd']) or 'unknown'}"
    yield f"Nodes:   {state['nodes']}{_hollow_text(state['hollowNodes'], state['nodes'])}"
    yield f"Pods:    {pods['bound']} bound, {pods['pending']} pending"
    if queues := state["queues"]:
        wait = "unit waits" if queues["waiting"] == 1 else "units wait"
        are = "is" if queues["admitted"] == 1 else "are"
        counts = f"{queues['waiting']} {wait}, {queues['admitted']} {are} admitted"
        number = counted(queues["clusterQueues"], "ClusterQueue")
        yield f"Queues:  {number}; {counts} (sched queues)"
    for kind, count in state["withoutController"].items():
        yield f"Note:    {left_alone_text(kind, count)}"
    alive = (replica for replica in state["replicas"] if replica["state"] != "gone")
    if set_aside := max((replica["setAside"] for replica in alive), default=0):
        objects = counted(set_aside, "object")
        yield f"Ignored: {objects} that cannot be used; the replicas' logs name them"
