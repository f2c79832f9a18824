"""``sched defragment``: find moves of pods that empty nodes or make room, and carry them out."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import typer

from podsched.api.conditions import is_finished
from podsched.api.objects import Pod
from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.defragmentation import (
    Defragmentation,
    Rules,
    free_nodes,
    make_room,
    must_leave,
)
from podsched.cli import plan_files
from podsched.cli.client import Namespace, with_client
from podsched.cli.cluster_source import ClusterSource, QuestionFlags, admit
from podsched.cli.config import read_config
from podsched.cli.edit import is_unschedulable, set_unschedulable
from podsched.cli.errors import FAILED, USAGE, fail, fail_if_cut_short
from podsched.cli.flags import takes_flags
from podsched.cli.options import Form, Timeout, seconds_or_fail
from podsched.cli.output import say
from podsched.cli.printers import aligned
from podsched.cli.relocation import Mover, PodMove, Stopped
from podsched.cli.what_if import world_of
from podsched.config.flags import flag
from podsched.framework.pods import PodInfo
from podsched.lib.counted import counted, listed
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError
from podsched.telemetry.log_output import configure_logging

#: Max pods that are named when a plan is refused.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class _Flags(QuestionFlags):
    plan: bool = flag(False)
    """Show the moves that would help, without changing anything."""
    execute: str = flag("", "TOKEN")
    """Carry out the moves of a plan, one by one."""
    nodes: int = flag(1, "N", min=1, max=1000)
    """Max number of nodes to empty."""
    for_pod: str = flag("", "POD", names="--for")
    """Make room for this waiting pod instead."""


@takes_flags
def defragment(
    given: _Flags, rules: Rules, namespace: Namespace = "default", timeout: Timeout = "60s"
) -> None:
    """Find a few moves of pods that empty nodes, or make room for a waiting pod.

    --plan shows them and changes nothing; for the API server's cluster it prints a token. --execute
    TOKEN carries them out: room on the new node is reserved before the old pod is evicted, and
    evictions honour disruption budgets (docs/what-if.md). --execute uses only --server, --force and
    --timeout (for each wait).

    Ends with 1 if no moves help, or if they could not be carried out.
    """
    if given.plan == bool(given.execute):
        fail("use either --plan or --execute TOKEN", USAGE)
    if given.execute:
        _execute(
            given.execute, seconds_or_fail("--timeout", timeout), given.server, force=rules.force
        )
        return
    configure_logging("text", "warning")
    _plan(given, rules, given.source(), namespace)


def _plan(given: _Flags, rules: Rules, source: ClusterSource, namespace: str) -> None:
    """Search for moves and show them; exit with 1 if there are none."""
    objects = source.objects()
    admit(objects, [])
    world = world_of(objects, read_config(given.config))
    budgets = Budgets(world.cluster.list("PodDisruptionBudget"), [p.pod for p in world.pods()])
    waiting = _waiting(world.pending(), namespace, given.for_pod) if given.for_pod else None
    if waiting is not None:
        found = make_room(world, waiting, rules, budgets) or Defragmentation()
    else:
        found = free_nodes(world, given.nodes, rules, budgets)
    _show(found, waiting, given.output, rules, executable=source.live)
    if not found.steps:
        raise typer.Exit(FAILED)


def _waiting(pending: Sequence[PodInfo], namespace: str, name: str) -> PodInfo:
    key = name if "/" in name else f"{namespace}/{name}"
    found = next((pod for pod in pending if pod.key == key), None)
    if found is None:
        fail(f"--for {name}: no waiting pod {key}", USAGE)
    return found


def _limits(rules: Rules) -> str:
    """Return a text about the pods that may be moved."""
    only = [
        *([] if rules.force else ["with a controller (--force: all)"]),
        *([] if rules.local_data else ["without emptyDir volumes (--delete-emptydir-data: all)"]),
        "whose eviction no budget forbids",
    ]
    pods = counted(rules.max_moves, "pod")
    return f"At most {pods} may move (--max-moves), only those {', '.join(only)}."


def _show(
    found: Defragmentation, waiting: PodInfo | None, output: Form, rules: Rules, *, executable: bool
) -> None:
    document = _document(found, waiting)
    token = plan_files.save(document) if executable and found.steps else ""
    if output == "json":
        del document["kind"]
        print(json.dumps({**document, "token": token}, indent=2))
        return
    if not found.steps:
        what = f"let {waiting.key} in" if waiting is not None else "free a node"
        say(f"No moves were found that {what}. {_limits(rules)}")
        return
    if waiting is not None:
        say(f"{_moves(found)} let {waiting.key} onto {found.node_name}:")
    else:
        say(f"{_moves(found)} free {', '.join(found.freed)}:")
    say()
    rows = [[step.pod.key, step.from_node, step.to_node] for step in found.steps]
    say(*aligned([["POD", "FROM", "TO"], *rows]))
    if token:
        say()
        say(f"To carry them out: sched defragment --execute {token}")


def _moves(found: Defragmentation) -> str:
    count = len(found.steps)
    return "1 move would" if count == 1 else f"{count} moves would"


def _document(found: Defragmentation, waiting: PodInfo | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "Plan",
        "moves": [
            {
                "namespace": step.pod.namespace,
                "name": step.pod.name,
                "uid": step.pod.uid,
                "from": step.from_node,
                "to": step.to_node,
            }
            for step in found.steps
        ],
        "freed": list(found.freed),
    }
    if waiting is not None:
        document["for"] = {"namespace": waiting.namespace, "name": waiting.name}
        document["node"] = found.node_name
    return document


# ---------------------------------------------------------------------- carrying it out


def _execute(token: str, timeout: float, server: str, *, force: bool) -> None:
    document = plan_files.load(token)
    try:
        moves = [
            PodMove(m["namespace"], m["name"], m["uid"], m["from"], m["to"])
            for m in document["moves"]
        ]
        freed = [str(name) for name in document["freed"]]
        waiting = document.get("for")
        room = (waiting["namespace"], waiting["name"], document["node"]) if waiting else None
    except (KeyError, TypeError) as exc:
        fail(f"--execute {token}: not a plan of moves: {type(exc).__name__}: {exc}", USAGE)

    async def work(client: ApiClient) -> bool:
        try:
            await carry_out(client, Mover(client, timeout, say, force=force), moves, freed, room)
        except Stopped as stop:
            say(f"error: {stop}; the other pods were not moved", error=True)
            return False
        return True

    with fail_if_cut_short():
        moved = with_client(server, work)
    if not moved:
        raise typer.Exit(FAILED)


async def carry_out(
    client: ApiClient,
    mover: Mover,
    moves: Sequence[PodMove],
    freed: Sequence[str],
    room: tuple[str, str, str] | None,
) -> None:
    """Move pods one after another; on failure report what is left. Raises Stopped, ClientError.

    ``freed``: nodes to empty. ``room``: instead of nodes, the namespace and name of a pending pod
    to make room for, and its new node.
    """
    for move in moves:
        await mover.replacing(await mover.still_there(move))
    if room is not None:
        await _make_room(mover, moves, room)
    else:
        await _free(client, mover, moves, freed)


async def _make_room(mover: Mover, moves: Sequence[PodMove], room: tuple[str, str, str]) -> None:
    """Move pods away so that the pending pod gets the room. Raises Stopped, ClientError."""
    namespace, name, node = room
    try:
        for move in moves:
            if await mover.nominate(namespace, name, node):
                break  # It has a node: no more pods have to make room for it.
            await mover.move(move)
    except BaseException:
        nominated = True
        try:
            with suppress(Stopped, ClientError):
                await mover.nominate(namespace, name, "")
                nominated = False
        finally:
            if nominated:
                mover.tell(f"pod/{name} may still be nominated to {node}, where it keeps room")
        raise
    mover.tell(f"pod/{name} bound to {await mover.bound(namespace, name, node)}")


async def _free(
    client: ApiClient, mover: Mover, moves: Sequence[PodMove], freed: Sequence[str]
) -> None:
    """Empty nodes one after another, cordoned. Raises Stopped, ClientError.

    Nodes that are not emptied are uncordoned, unless they were cordoned before. No pod is moved if
    a node has others than the plan moves.
    """
    cordoned: list[str] = []
    try:
        for name in freed:
            if not await is_unschedulable(client, name):
                cordoned.append(name)
                await set_unschedulable(client, name, True)
        for name in freed:
            await _stop_at_others(client, name, {move.uid for move in moves})
        for name in freed:
            for move in moves:
                if move.from_node == name:
                    await mover.move(move)
            await _stop_at_others(client, name, set())
            if name in cordoned:
                cordoned.remove(name)
            mover.tell(f"node/{name} is free, and cordoned")
    finally:
        await _uncordon(client, mover, cordoned)


async def _uncordon(client: ApiClient, mover: Mover, cordoned: list[str]) -> None:
    """Uncordon nodes, and print those that stay cordoned."""
    try:
        for name in [*cordoned]:
            with suppress(ClientError):
                await set_unschedulable(client, name, False)
                cordoned.remove(name)
    finally:
        for name in cordoned:
            mover.tell(f"node/{name} stays cordoned: sched uncordon {name}")


async def _stop_at_others(client: ApiClient, node: str, moving: Collection[str]) -> None:
    """Raise Stopped if a node has other pods to move than those with these uids."""
    pods = (await client.list("Pod", field_selector=f"spec.nodeName={node}")).items
    others = [
        pod.metadata.name
        for pod in pods
        if isinstance(pod, Pod)
        and not is_finished(pod)
        and must_leave(pod)
        and pod.metadata.uid not in moving
    ]
    if others:
        raise Stopped(f"node/{node} has pods that the plan does not move: {listed(others, _NAMED)}")
