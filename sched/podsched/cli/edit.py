"""Commands that edit one aspect of objects: label, annotate, taint, cordon, uncordon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from podsched.api.manifest import to_manifest
from podsched.api.objects import Node
from podsched.cli.client import Namespace, ServerFlags, for_each
from podsched.cli.errors import USAGE, fail, fail_if_cut_short
from podsched.cli.flags import takes_flags
from podsched.cli.formats import reference
from podsched.cli.options import DryRun, DryRunOption, LabelSelector
from podsched.cli.output import say
from podsched.cli.targets import (
    OptionalNodes,
    Target,
    check_scope,
    complete_nodes,
    complete_targets,
    parse_targets,
    resolve,
    split_changes,
)
from podsched.config.flags import flag
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Conflict, NotFound

_NODE = ("node", "nodes", "no")
#: Max attempts to change a node that others change, too.
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class _NodeFlags(ServerFlags):
    """Options that select the nodes to change, and ``--dry-run``."""

    selector: LabelSelector = flag("")
    everything: bool = flag(False, names="--all")
    """All objects of the kind."""
    dry_run: DryRunOption = flag(DryRun.NONE)


@dataclass(frozen=True, slots=True)
class _ObjectFlags(_NodeFlags):
    """The options for objects of all kinds."""

    namespace: Namespace = flag("default")
    overwrite: bool = flag(False)
    """Replace existing values."""


TargetsAndChanges = Annotated[
    list[str],
    typer.Argument(
        metavar="KIND NAME... KEY=VALUE|KEY-...",
        help="Objects as KIND NAME... or KIND/NAME..., then KEY=VALUE to set or KEY- to remove.",
        autocompletion=complete_targets,
    ),
]


@takes_flags
def label(targets: TargetsAndChanges, given: _ObjectFlags) -> None:
    """Set or remove labels of objects.

    Example: sched label node node-0 disk=ssd old-
    """
    _set_metadata("labels", "labeled", targets, given)


@takes_flags
def annotate(targets: TargetsAndChanges, given: _ObjectFlags) -> None:
    """Set or remove annotations of objects.

    Example: sched annotate pod web-0 example.com/owner=team-a
    """
    _set_metadata("annotations", "annotated", targets, given)


def _set_metadata(
    field: Literal["labels", "annotations"],
    done: str,
    arguments: Sequence[str],
    given: _ObjectFlags,
) -> None:
    named, changes = split_changes(arguments)
    if not changes:
        fail(f"no {field} to change: give KEY=VALUE or KEY-", USAGE)
    values = _parse_changes(changes)

    async def one(client: ApiClient, target: Target) -> None:
        kind, name, namespace = target
        obj = await target.get(client)
        present = getattr(obj.metadata, field)
        for key, value in values.items():
            if not given.overwrite and value is not None and present.get(key, value) != value:
                raise ClientError(
                    f'{target}: {key} is "{present[key]}" already; --overwrite replaces it'
                )
        patch = {"metadata": {field: values}}
        await client.patch(kind.name, name, patch, namespace, dry_run=given.dry_run.asked)
        say(f"{reference(obj)} {done}{given.dry_run.suffix}")

    async def wanted(client: ApiClient) -> list[Target]:
        targets = parse_targets(named, given.namespace)
        check_scope(targets, given.selector, everything=given.everything)
        return await resolve(client, targets, given.selector)

    with fail_if_cut_short():
        for_each(given.server, wanted, one)


def _parse_changes(changes: Sequence[str]) -> dict[str, str | None]:
    """Return the values by key, None for keys to remove."""
    wanted: list[tuple[str, str | None]] = []
    for change in changes:
        key, equals, value = change.partition("=")
        if not equals and not change.endswith("-"):
            fail(f'"{change}" is neither KEY=VALUE nor KEY-', USAGE)
        wanted.append((key, value) if equals else (change[:-1], None))
    _fail_on_duplicates(key for key, _ in wanted)
    return dict(wanted)


def _fail_on_duplicates(names: Iterable[str]) -> None:
    """Exit if two changes concern the same thing: which of them counts would be a guess."""
    for name, times in Counter(names).items():
        if times > 1:
            fail(f'"{name}" is changed twice', USAGE)


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


@takes_flags
def taint(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="NODE... TAINT...",
            help="KEY[=VALUE]:EFFECT to add, KEY[:EFFECT]- to remove. Effects: NoSchedule, "
            "PreferNoSchedule, NoExecute.",
            autocompletion=complete_nodes,
        ),
    ],
    given: _NodeFlags,
) -> None:
    """Add or remove taints of nodes.

    Example: sched taint node-0 key=value:NoSchedule
    """
    names, changes = split_changes(arguments, "=:")
    if not changes:
        fail("no taints: give KEY[=VALUE]:EFFECT to add or KEY[:EFFECT]- to remove", USAGE)
    parsed = [_parse_taint(change) for change in changes]
    _fail_on_duplicates(f"{key}:{effect}".rstrip(":") for key, _, effect, _ in parsed)

    async def one(client: ApiClient, name: str) -> None:
        await set_taints(client, name, parsed, given.dry_run)
        done = "untainted" if all(p[3] for p in parsed) else "tainted"
        say(f"node/{name} {done}{given.dry_run.suffix}")

    with fail_if_cut_short():
        for_each(given.server, nodes_of(names, given.selector, everything=given.everything), one)


async def set_taints(
    client: ApiClient, name: str, changes: Sequence[tuple[str, str, str, bool]], dry_run: DryRun
) -> None:
    """Change the taints of a node. Raises ClientError, Conflict if it keeps changing.

    A patch replaces all taints, so it must not be applied to a node that was tainted meanwhile.
    """
    for left in reversed(range(_ATTEMPTS)):
        node = await client.get("Node", name)
        before = to_manifest(node).get("spec", {}).get("taints", [])
        taints = _tainted(before, changes, f"node/{name}")
        patch = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints or None},
        }
        try:
            await client.patch("Node", name, patch, dry_run=dry_run.asked)
            return
        except Conflict:
            if not left:
                raise


def _tainted(
    taints: Sequence[dict[str, Any]], changes: Sequence[tuple[str, str, str, bool]], node: str
) -> list[dict[str, Any]]:
    """Return the taints after the changes. Raises NotFound if one to remove does not exist."""
    found = list(taints)
    for key, value, effect, remove in changes:
        kept = [t for t in found if not (t["key"] == key and effect in ("", t.get("effect", "")))]
        if remove and len(kept) == len(found):
            raise NotFound(f'{node}: taint "{key}{":" + effect if effect else ""}" not found')
        found = kept if remove else [*kept, {"key": key, "value": value, "effect": effect}]
    return found


def nodes_of(
    names: Sequence[str] | None, selector: str, *, everything: bool = False
) -> Callable[[ApiClient], Awaitable[list[str]]]:
    """Return a function that finds nodes by NAME, node/NAME, node NAME, or selector."""

    async def found(client: ApiClient) -> list[str]:
        given = names or []
        named = given[1:] if given and given[0] in _NODE else given
        targets = parse_targets(["nodes", *map(node_name, named)], "")
        check_scope(targets, selector, everything=everything)
        return [target.name for target in await resolve(client, targets, selector)]

    return found


def node_name(text: str) -> str:
    """Return the name of a node given as NAME or node/NAME; exit if it is of another kind."""
    kind, _, name = text.rpartition("/")
    if kind not in ("", *_NODE):
        fail(f'"{text}" is not the name of a node', USAGE)
    return name


async def is_unschedulable(client: ApiClient, name: str) -> bool:
    """Return whether a node is cordoned. Raises NotFound."""
    node = await client.get("Node", name)
    return isinstance(node, Node) and node.spec.unschedulable


async def set_unschedulable(
    client: ApiClient, name: str, value: bool, dry_run: DryRun = DryRun.NONE
) -> None:
    """Cordon or uncordon a node. Raises NotFound."""
    patch = {"spec": {"unschedulable": value or None}}
    await client.patch("Node", name, patch, dry_run=dry_run.asked)


async def tell_unschedulable(client: ApiClient, name: str, value: bool, dry_run: DryRun) -> None:
    """Cordon or uncordon a node if necessary, and print it. Raises NotFound."""
    already = await is_unschedulable(client, name) == value
    if not already:
        await set_unschedulable(client, name, value, dry_run)
    done = "cordoned" if value else "uncordoned"
    say(f"node/{name} {'already ' if already else ''}{done}{dry_run.suffix}")


def _set_unschedulable(names: Sequence[str] | None, given: _NodeFlags, *, value: bool) -> None:
    with fail_if_cut_short():
        for_each(
            given.server,
            nodes_of(names, given.selector, everything=given.everything),
            lambda client, name: tell_unschedulable(client, name, value, given.dry_run),
        )


@takes_flags
def cordon(given: _NodeFlags, names: OptionalNodes = None) -> None:
    """Mark nodes as unschedulable; pods that run there keep running."""
    _set_unschedulable(names, given, value=True)


@takes_flags
def uncordon(given: _NodeFlags, names: OptionalNodes = None) -> None:
    """Mark nodes as schedulable again."""
    _set_unschedulable(names, given, value=False)
