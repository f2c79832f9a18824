"""``sched get``: objects as tables, manifests, or chosen fields."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from podsched.api.objects import AnyObject, Node
from podsched.cli.client import Namespace, Server, for_each, outage_on_stderr, with_client
from podsched.cli.devices import WORDS, get_devices
from podsched.cli.errors import FAILED, USAGE, fail, report
from podsched.cli.formats import (
    RAW,
    Format,
    OutputOption,
    Printer,
    SortBy,
    parse_format,
    sorted_by,
    warn_if_unsorted,
)
from podsched.cli.node_usage import requested_on, usage_cells
from podsched.cli.options import LabelSelector
from podsched.cli.output import say
from podsched.cli.printers import Usage
from podsched.cli.redraw import WatchedTable, is_terminal
from podsched.cli.targets import Target, Targets, nothing_found, parse_targets
from podsched.lib.printable import printable
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Compacted, Forbidden, Unavailable
from podsched.serve.client.object_watch import Change, watch_objects
from podsched.v1.api_pb2 import RawObject

FieldSelector = Annotated[
    str,
    typer.Option(
        "--field-selector",
        metavar="SELECTOR",
        help="Select objects by fields, such as spec.nodeName=node-1.",
    ),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="Show objects of all namespaces.")
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Keep watching and show changes, until Ctrl-C.")
]

_TABLES = ("table", "wide")
#: Seconds after which a watch is started again whose revision was compacted.
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Selection:
    """The selectors of the objects to show."""

    labels: str
    fields: str

    async def all_of(self, client: ApiClient, target: Target) -> tuple[list[AnyObject], int]:
        """Return the objects of a kind and the revision from which to watch them."""
        return await client.list(
            target.kind.name,
            target.namespace,
            label_selector=self.labels,
            field_selector=self.fields,
        )

    async def changes(
        self,
        client: ApiClient,
        target: Target,
        revision: int,
        on_reached: Callable[[bool], object] = lambda reached: None,
    ) -> AsyncIterator[Change]:
        """Yield the changes of objects after a revision.

        A restarted server may not have the changes since the last one. Then all objects are listed
        again, and those that changed are yielded; deletions in between are missed.
        """
        since = start = revision
        while True:
            try:
                async for change in watch_objects(
                    client,
                    [target.kind.name],
                    target.namespace,
                    label_selector=self.labels,
                    field_selector=f"metadata.name={target.name}" if target.name else self.fields,
                    from_revision=start,
                    on_reached=on_reached,
                ):
                    if 0 < change.revision < since:  # etcd was restored from a backup
                        since = 0
                    if int(change.object.metadata.resource_version) > since:
                        yield change
                    since = max(since, change.revision)
            except Compacted:
                start = 0
                await asyncio.sleep(_PAUSE)


def get(
    targets: Targets,
    server: Server = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: OutputOption = "table",
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    sort_by: SortBy = "",
    watch: Watch = False,
) -> None:
    """Show objects as a table, as manifests, or the fields of your choice.

    Examples: sched get pods,nodes; sched get pod/web-0 node/node-0000;
    sched get pods -o 'jsonpath={.items[*].spec.nodeName}';
    sched get devices (the devices of all ResourceSlices, and their users)
    """
    more = watch or selector
    if not set(WORDS).isdisjoint(targets[0].split(",")):
        get_devices(targets, server, output, field_selector, alone=not (more or sort_by))
        return
    if output == RAW:
        get_raw(targets, server, namespace, alone=not (more or field_selector))
        return
    chosen = parse_format(output)

    async def work(client: ApiClient) -> bool:
        wanted = parse_targets(targets, namespace)
        _check(wanted, selector or field_selector, watch=watch, everywhere=all_namespaces)
        wanted = [t._replace(namespace="") if all_namespaces else t for t in wanted]
        selection = Selection(selector, field_selector)
        found = await _find(client, wanted, selection)
        items: Sequence[AnyObject] = found.items
        if sort_by:
            items = sorted_by(items, sort_by)
            warn_if_unsorted(items, sort_by)
        outage = outage_on_stderr(server)
        changes = selection.changes(client, wanted[0], found.revision, outage)
        if watch and not found.failed and chosen.name in _TABLES and is_terminal():
            table = WatchedTable(
                items, lambda: Printer(chosen, namespaces=all_namespaces), sorting=sort_by
            )
            await table.follow(changes)
        printer = Printer(
            chosen,
            namespaces=all_namespaces,
            kinds_in_names=len({target.kind.name for target in wanted}) > 1,
            usage=None if watch else await _node_usage(client, chosen, items),
        )
        if watch and chosen.documents:
            _show_each(items, chosen, printer)
        elif items or not (watch or found.failed):
            _show_all(items, wanted, chosen, printer)
        if watch and not found.failed:
            await _show_changes(changes, chosen, printer)
        return found.failed

    if with_client(server, work):
        raise typer.Exit(FAILED)


def _show_all(
    items: Sequence[AnyObject], wanted: Sequence[Target], chosen: Format, printer: Printer
) -> None:
    """Show objects, or say that there are none."""
    if items or chosen.name not in _TABLES:
        show(chosen, printer.text(items, single=len(wanted) == 1 and bool(wanted[0].name)))
    else:
        say(nothing_found(wanted), error=True)


async def _show_changes(changes: AsyncIterator[Change], chosen: Format, printer: Printer) -> None:
    async for change in changes:
        _show_each([change.object], chosen, printer)


def _show_each(items: Sequence[AnyObject], chosen: Format, printer: Printer) -> None:
    for item in items:
        if chosen.name == "yaml":
            print("---")
        show(chosen, printer.text([item], single=True))


def _check(wanted: Sequence[Target], selector: str, *, watch: bool, everywhere: bool) -> None:
    if selector and any(target.name for target in wanted):
        fail("NAME and a selector cannot be combined", USAGE)
    if everywhere and any(target.name and target.namespace for target in wanted):
        fail("NAME and --all-namespaces cannot be combined: use --namespace", USAGE)
    if watch and len(wanted) > 1:
        fail("--watch: only one kind or one object can be watched at a time", USAGE)


def show(chosen: Format, text: str) -> None:
    """Print text of a format and flush, so that the reader of a watch gets it at once."""
    if chosen.manifests:
        print(text)  # YAML and JSON escape control characters themselves
    elif chosen.name == "jsonpath":
        # A file or a program gets what is stored.
        print(printable(text) if sys.stdout.isatty() else text, end="")
    elif text:
        say(text)
    sys.stdout.flush()


@dataclass(slots=True)
class _Found:
    items: list[AnyObject]
    revision: int = 0
    failed: bool = False
    """Whether some objects do not exist, or may not be read."""


async def _find(client: ApiClient, targets: Sequence[Target], selection: Selection) -> _Found:
    """Return the objects; report those that do not exist or may not be read."""
    found = _Found([])
    for target in targets:
        try:
            if target.name:
                item = await target.get(client)
                found.items.append(item)
                found.revision = int(item.metadata.resource_version)
            else:
                items, found.revision = await selection.all_of(client, target)
                found.items += items
        except Unavailable:
            raise
        except ClientError as exc:
            found.failed = True
            report(exc)
    return found


async def _node_usage(
    client: ApiClient, chosen: Format, items: Sequence[AnyObject]
) -> Usage | None:
    """Return a function for the usage of nodes; None without a table of nodes, or right to it."""
    nodes = [item for item in items if isinstance(item, Node)]
    if not nodes or chosen.name not in _TABLES:
        return None
    one = f"spec.nodeName={nodes[0].metadata.name}" if len(nodes) == 1 else ""
    try:
        requested = requested_on((await client.list("Pod", field_selector=one)).items)
    except Forbidden:
        return None
    return lambda node: usage_cells(node, requested.get(node.metadata.name, {}))


def get_raw(targets: Sequence[str], server: str, namespace: str, *, alone: bool) -> None:
    """Print objects as they are stored; exit if one does not exist.

    ``alone``: without selectors and ``--watch``, which need objects that can be decoded.
    """
    if not alone:
        fail("-o raw cannot be combined with selectors and --watch", USAGE)

    async def named(_: ApiClient) -> list[Target]:
        return parse_targets(targets, namespace)

    async def one(client: ApiClient, target: Target) -> None:
        if not target.name:
            fail("-o raw needs the names of objects", USAGE)
        kind, name, namespace = target
        print(as_json(await client.get_raw(kind.name, name, namespace)))

    for_each(server, named, one)


def as_json(raw: RawObject) -> str:
    """Return the object as JSON, with its bytes in base64."""
    shown = {
        "kind": raw.kind,
        "namespace": raw.namespace,
        "name": raw.name,
        "resourceVersion": str(raw.resource_version),
        "problem": raw.problem,
        "value": base64.b64encode(raw.value).decode(),
    }
    return json.dumps({key: value for key, value in shown.items() if value}, indent=2)
