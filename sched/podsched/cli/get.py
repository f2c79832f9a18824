"""Commands that show objects: get, describe."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer
import yaml

from podsched.api.kinds import Kind, find_kind, unwrap
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli import describe, printers
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import USAGE, fail
from podsched.cli.objects import KindArgument, LabelSelector, reference
from podsched.cli.output import say
from podsched.client.api_client import ApiClient
from podsched.client.errors import Compacted, Unavailable
from podsched.v1.api_pb2 import Object, WatchRequest

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


#: Seconds before a broken watch is restarted.
_PAUSE = 0.5


class Output(StrEnum):
    """Output formats of ``get``."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"


OutputOption = Annotated[
    Output,
    typer.Option(
        "--output",
        "-o",
        metavar="FORMAT",
        help="Output format: table, wide (more columns), yaml, json or name.",
    ),
]


async def changes(client: ApiClient, request: WatchRequest) -> AsyncIterator[AnyObject]:
    """Yield the objects that change after a revision; reconnect when the connection breaks.

    A restarted server may not know the changes since the last revision. Everything is listed again
    then, and changed objects are yielded; deletions in between are missed.
    """
    since = 0
    while True:
        try:
            async for response in client.watch(request):
                for event in response.events:
                    obj = unwrap(Object.FromString(event.object))
                    if int(obj.metadata.resource_version) > since:
                        yield obj
                if response.revision:
                    since = request.from_revision = response.revision
                    request.send_initial_events = False
        except Unavailable:
            await asyncio.sleep(_PAUSE)
        except Compacted:
            since = max(since, request.from_revision)
            request.send_initial_events = True
            await asyncio.sleep(_PAUSE)


@dataclass(frozen=True, slots=True)
class _View:
    """How objects of one kind are shown."""

    kind: Kind
    output: Output
    table: printers.TablePrinter

    def show(self, items: Sequence[AnyObject], *, single: bool) -> None:
        """Print objects and flush, so that the reader of a watch gets them at once."""
        if self.output is Output.NAME:
            lines = [reference(item) for item in items]
        elif self.output in (Output.YAML, Output.JSON):
            lines = [self._manifest(items, single=single)]
        else:
            lines = self.table.lines(items, time.time())
        if self.output in (Output.YAML, Output.JSON):
            print("\n".join(lines))  # both have escapes of their own
        elif lines:
            say("\n".join(lines))
        sys.stdout.flush()

    def _manifest(self, items: Sequence[AnyObject], *, single: bool) -> str:
        manifests = [to_manifest(item) for item in items]
        document: Any = (
            manifests[0] if single else {"apiVersion": "v1", "kind": "List", "items": manifests}
        )
        if self.output is Output.JSON:
            return json.dumps(document, indent=2)
        return yaml.safe_dump(document, sort_keys=False).rstrip("\n")


@dataclass(frozen=True, slots=True)
class _Query:
    """Which objects of a kind to get."""

    kind: Kind
    name: str
    namespace: str
    """Empty for all namespaces."""
    labels: str
    fields: str

    async def run(self, client: ApiClient) -> tuple[Sequence[AnyObject], int]:
        """Return the objects and the revision from which to watch them."""
        if self.name:
            found = await client.get(self.kind.name, self.name, self.namespace)
            return [found], int(found.metadata.resource_version)
        return await client.list(
            self.kind.name,
            self.namespace,
            label_selector=self.labels,
            field_selector=self.fields,
        )

    def watch_from(self, revision: int) -> WatchRequest:
        """Return the request for changes after a revision."""
        return WatchRequest(
            kinds=[self.kind.name],
            namespace=self.namespace,
            label_selector=self.labels,
            field_selector=f"metadata.name={self.name}" if self.name else self.fields,
            from_revision=revision,
        )


def get(
    kind: KindArgument,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of one object. Default: all of the kind.")
    ] = "",
    server: Server = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: OutputOption = Output.TABLE,
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep watching and show changes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show objects of a kind as a table or as manifests."""
    if name and (selector or field_selector):
        fail("NAME and a selector cannot be combined", USAGE)

    async def work(client: ApiClient) -> None:
        found = find_kind(kind)
        everywhere = not found.namespaced or (all_namespaces and not name)
        scope = "" if everywhere else namespace
        query = _Query(found, name, scope, selector, field_selector)
        items, revision = await query.run(client)
        table = printers.TablePrinter(found, namespaces=all_namespaces, wide=output is Output.WIDE)
        view = _View(found, output, table)
        if items or (output in (Output.YAML, Output.JSON) and not watch):
            view.show(items, single=bool(name))
        elif not watch and output is not Output.NAME:
            place = f" in {scope} namespace" if scope else ""
            say(f"No resources found{place}.", error=True)
        if watch:
            await _watch(client, view, query.watch_from(revision))

    with_client(server, work)


async def _watch(client: ApiClient, view: _View, request: WatchRequest) -> None:
    async for obj in changes(client, request):
        if view.output is Output.YAML:
            print("---")
        view.show([obj], single=True)


def describe_command(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the object.")],
    server: Server = "",
    namespace: Namespace = "default",
) -> None:
    """Show one object in detail, with its events."""

    async def work(client: ApiClient) -> None:
        found = find_kind(kind)
        obj = await client.get(found.name, name, namespace if found.namespaced else "")
        selector = f"involvedObject.name={name},involvedObject.kind={found.name}"
        events, _ = await client.list(
            "Event", namespace if found.namespaced else "", field_selector=selector
        )
        pods: list[AnyObject] = []
        if found.name == "Node":
            pods, _ = await client.list("Pod", "", field_selector=f"spec.nodeName={name}")
        say(describe.describe(obj, events, pods, time.time()))

    with_client(server, work)


__all__ = ["describe_command", "get"]
