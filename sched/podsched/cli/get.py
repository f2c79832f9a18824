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
from podsched.cli.client import USAGE, Namespace, Server, fail, with_client
from podsched.cli.objects import KindArgument, LabelSelector, reference
from podsched.client.api_client import ApiClient
from podsched.client.errors import Unavailable
from podsched.v1.api_pb2 import Object, WatchRequest

FieldSelector = Annotated[
    str,
    typer.Option(
        "--field-selector",
        metavar="SELECTOR",
        help="Only objects with these fields: spec.nodeName=node-1, status.phase!=Running.",
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Of all namespaces.")]


class Output(StrEnum):
    """Forms of ``get``'s output."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"


async def changes(client: ApiClient, request: WatchRequest) -> AsyncIterator[AnyObject]:
    """Return the objects that change from a revision on, through broken connections."""
    while True:
        try:
            async for response in client.watch(request):
                for event in response.events:
                    yield unwrap(Object.FromString(event.object))
                if response.revision:
                    request.from_revision = response.revision
        except Unavailable:
            await asyncio.sleep(0.5)


@dataclass(frozen=True, slots=True)
class _View:
    """How objects of one kind are shown."""

    kind: Kind
    output: Output
    table: printers.TablePrinter

    def show(self, items: Sequence[AnyObject], *, single: bool) -> None:
        """Print objects; flushed, so that whoever reads a watch has them at once."""
        if self.output is Output.NAME:
            lines = [reference(item) for item in items]
        elif self.output in (Output.YAML, Output.JSON):
            lines = [self._manifest(items, single=single)]
        else:
            lines = self.table.lines(items, time.time())
        for line in lines:
            print(line)
        sys.stdout.flush()

    def _manifest(self, items: Sequence[AnyObject], *, single: bool) -> str:
        manifests = [to_manifest(item) for item in items]
        document: Any = (
            manifests[0] if single else {"apiVersion": "v1", "kind": "List", "items": manifests}
        )
        if self.output is Output.JSON:
            return json.dumps(document, indent=2)
        return yaml.safe_dump(document, sort_keys=False).rstrip("\n")


def get(
    kind: KindArgument,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="One object; all of the kind when left out.")
    ] = "",
    server: Server = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: Annotated[
        Output,
        typer.Option(
            "--output",
            "-o",
            help="wide has more columns; yaml and json are manifests that apply takes.",
        ),
    ] = Output.TABLE,
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on and show every change, until Ctrl-C.")
    ] = False,
) -> None:
    """Show objects: a table of a kind, or manifests."""

    async def work(client: ApiClient) -> None:
        found = find_kind(kind)
        scope = "" if all_namespaces or not found.namespaced else namespace
        if name:
            items = [await client.get(found.name, name, namespace if found.namespaced else "")]
            revision = int(items[0].metadata.resource_version)
        else:
            items, revision = await client.list(
                found.name, scope, label_selector=selector, field_selector=field_selector
            )
        table = printers.TablePrinter(found, namespaces=all_namespaces, wide=output is Output.WIDE)
        view = _View(found, output, table)
        if items or (output in (Output.YAML, Output.JSON) and not watch):
            view.show(items, single=bool(name))
        elif not watch and output is not Output.NAME:
            place = f" in {scope} namespace" if scope else ""
            print(f"No resources found{place}.", file=sys.stderr)
        if watch:
            await _watch(client, view, scope, name, revision)

    async def _watch(client: ApiClient, view: _View, scope: str, one: str, revision: int) -> None:
        fields = ",".join(f for f in (field_selector, f"metadata.name={one}" if one else "") if f)
        request = WatchRequest(
            kinds=[view.kind.name],
            namespace=scope,
            label_selector=selector,
            field_selector=fields,
            from_revision=revision,
        )
        async for obj in changes(client, request):
            if output is Output.YAML:
                print("---")
            view.show([obj], single=True)

    if name and (selector or field_selector):
        fail("a name and a selector cannot be given together", USAGE)
    with_client(server, work)


def describe_command(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The object's name.")],
    server: Server = "",
    namespace: Namespace = "default",
) -> None:
    """Show one object for a person to read, with its events: why a pod waits."""

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
        print(describe.describe(obj, events, pods, time.time()))

    with_client(server, work)
