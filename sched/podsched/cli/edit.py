"""Commands that edit one aspect of an object: label, taint, cordon, uncordon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from podsched.api.kinds import find_kind
from podsched.api.manifest import to_manifest
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail, report
from podsched.cli.objects import KindArgument
from podsched.cli.output import say
from podsched.client.api_client import ApiClient
from podsched.client.errors import NotFound


def label(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the object.")],
    changes: Annotated[
        list[str],
        typer.Argument(metavar="KEY=VALUE|KEY-", help="KEY=VALUE to set, KEY- to remove."),
    ],
    server: Server = "",
    namespace: Namespace = "default",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing values.")
    ] = False,
) -> None:
    """Set or remove labels of an object.

    Example: sched label node node-0 disk=ssd old-
    """
    wanted: dict[str, str | None] = {}
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals and not change.endswith("-"):
            fail(f'"{change}" is neither KEY=VALUE nor KEY-', USAGE)
        wanted[key if equals else change[:-1]] = value if equals else None

    async def work(client: ApiClient) -> None:
        found = find_kind(kind)
        where = namespace if found.namespaced else ""
        obj = await client.get(found.name, name, where)
        present = obj.metadata.labels
        for key, value in wanted.items():
            if not overwrite and value is not None and present.get(key, value) != value:
                fail(f"'{key}' already has a value ({present[key]}), and --overwrite is false")
        await client.patch(found.name, name, {"metadata": {"labels": wanted}}, where)
        say(f"{found.name.lower()}/{name} labeled")

    with_client(server, work)


def _parse_taint(text: str) -> tuple[str, str, str, bool]:
    """Return key, value, effect and whether the taint is to be removed."""
    remove = text.endswith("-")
    body = text[:-1] if remove else text
    head, _, effect = body.partition(":")
    key, _, value = head.partition("=")
    if not key or (not effect and not remove):
        fail(f'"{text}" is not KEY[=VALUE]:EFFECT, KEY:EFFECT- or KEY-', USAGE)
    if effect and effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        fail(f'"{effect}" is not NoSchedule, PreferNoSchedule or NoExecute', USAGE)
    return key, value, effect, remove


def taint(
    name: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="TAINT",
            help="KEY[=VALUE]:EFFECT to add, KEY[:EFFECT]- to remove. Effects: NoSchedule, "
            "PreferNoSchedule, NoExecute.",
        ),
    ],
    server: Server = "",
) -> None:
    """Add or remove taints of a node.

    Example: sched taint node-0 key=value:NoSchedule
    """
    parsed = [_parse_taint(change) for change in changes]

    async def work(client: ApiClient) -> None:
        node = await client.get("Node", name)
        taints = [dict(t) for t in to_manifest(node).get("spec", {}).get("taints", [])]
        for key, value, effect, remove in parsed:
            kept = [
                t for t in taints if not (t["key"] == key and effect in ("", t.get("effect", "")))
            ]
            if remove and len(kept) == len(taints):
                fail(f'taint "{key}{":" + effect if effect else ""}" not found')
            taints = kept
            if not remove:
                taints.append({"key": key, "value": value, "effect": effect})
        await client.patch("Node", name, {"spec": {"taints": taints or None}})
        say(f"node/{name} {'untainted' if all(p[3] for p in parsed) else 'tainted'}")

    with_client(server, work)


def _set_unschedulable(server: str, names: Sequence[str], value: bool, done: str) -> None:
    async def work(client: ApiClient) -> int:
        failures = 0
        for name in names:
            try:
                await client.patch("Node", name, {"spec": {"unschedulable": value or None}})
                say(f"node/{name} {done}")
            except NotFound as exc:
                failures += 1
                report("", exc)
        return failures

    if with_client(server, work):
        raise typer.Exit(FAILED)


Nodes = Annotated[list[str], typer.Argument(metavar="NODE", help="Names of the nodes.")]


def cordon(names: Nodes, server: Server = "") -> None:
    """Mark nodes as unschedulable; pods that run there keep running."""
    _set_unschedulable(server, names, True, "cordoned")


def uncordon(names: Nodes, server: Server = "") -> None:
    """Mark nodes as schedulable again."""
    _set_unschedulable(server, names, False, "uncordoned")


__all__ = ["cordon", "label", "taint", "uncordon"]
