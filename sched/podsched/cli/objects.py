"""Commands over objects: apply, create, get, describe, delete, label, taint, cordon, uncordon."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from podsched.api.kinds import Kind, find_kind, kind_of, unwrap
from podsched.api.manifest import (
    ManifestError,
    describe,
    from_manifest,
    load_documents,
    to_manifest,
)
from podsched.api.objects import AnyObject
from podsched.cli import describing, printers
from podsched.cli.session import FAILED, USAGE, Namespace, Server, fail, warn, with_client
from podsched.client.api_client import ApiClient
from podsched.client.errors import ClientError, NotFound, Unavailable
from podsched.v1.api_pb2 import Object, WatchRequest

Filename = Annotated[
    list[str],
    typer.Option("--filename", "-f", help="A file, a directory, or - for standard input."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unknown fields instead of warning.")]
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help="pods, nodes, pdb, ...")]
LabelSelector = Annotated[
    str, typer.Option("--selector", "-l", help="Label selector, such as app=web,tier!=front.")
]
FieldSelector = Annotated[
    str, typer.Option("--field-selector", help="Field selector, such as spec.nodeName=node-1.")
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]


class Output(StrEnum):
    """Forms of ``get``'s output."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"
    NAME = "name"


def reference(message: AnyObject) -> str:
    """kubectl's name of an object: pod/web."""
    return f"{kind_of(message).name.lower()}/{message.metadata.name}"


def _texts(filenames: Iterable[str]) -> Iterator[tuple[str, str]]:
    for filename in filenames:
        if filename == "-":
            yield "standard input", sys.stdin.read()
            continue
        path = Path(filename)
        if path.is_dir():
            files = sorted(p for p in path.iterdir() if p.suffix in (".yaml", ".yml", ".json"))
            if not files:
                fail(f"{filename}: no .yaml, .yml or .json file in this directory")
        else:
            files = [path]
        for file in files:
            try:
                yield str(file), file.read_text()
            except (OSError, UnicodeDecodeError) as exc:
                fail(f"{file}: {getattr(exc, 'strerror', None) or exc}")


def read_manifests(filenames: Sequence[str], namespace: str, *, strict: bool) -> list[AnyObject]:
    """The objects in files, directories or standard input; every mistake is reported before the
    exit."""
    objects: list[AnyObject] = []
    mistakes = 0
    for source, text in _texts(filenames):
        try:
            documents = load_documents(text)
        except ManifestError as exc:
            mistakes += 1
            print(f"error: {source}: {exc}", file=sys.stderr)
            continue
        for document in documents:
            try:
                decoded = from_manifest(document, strict=strict)
            except ManifestError as exc:
                mistakes += 1
                print(f"error: {source}: {exc}", file=sys.stderr)
                continue
            for warning in decoded.warnings:
                warn(f"{source}: {describe(document)}: {warning}")
            message = decoded.message
            if kind_of(message).namespaced and not message.metadata.namespace:
                message.metadata.namespace = namespace
            objects.append(message)
    if mistakes:
        raise typer.Exit(FAILED)
    if not objects:
        fail("no objects in the given files")
    return objects


async def _each(objects: Sequence[AnyObject], act: Any) -> int:
    """Applies ``act`` to each object, prints what became of it, and counts the failures."""
    failures = 0
    for message in objects:
        try:
            print(f"{reference(message)} {await act(message)}")
        except ClientError as exc:
            if isinstance(exc, Unavailable):
                raise
            failures += 1
            print(f"error: {reference(message)}: {exc}", file=sys.stderr)
    return failures


def _merge_of(message: AnyObject) -> dict[str, Any]:
    manifest = to_manifest(message)
    for key in ("apiVersion", "kind", "status"):
        manifest.pop(key, None)
    manifest.get("metadata", {}).pop("resourceVersion", None)
    return manifest


def apply(
    filename: Filename,
    server: Server = "",
    namespace: Namespace = "default",
    strict: Strict = False,
) -> None:
    """Create the objects of manifests, or update those that exist."""
    objects = read_manifests(filename, namespace, strict=strict)

    async def work(client: ApiClient) -> int:
        async def one(message: AnyObject) -> str:
            kind = kind_of(message)
            if not message.metadata.name and message.metadata.generate_name:
                await client.create(message)
                return "created"
            try:
                before = await client.get(
                    kind.name, message.metadata.name, message.metadata.namespace
                )
            except NotFound:
                await client.create(message)
                return "created"
            after = await client.patch(
                kind.name, message.metadata.name, _merge_of(message), message.metadata.namespace
            )
            same = after.metadata.resource_version == before.metadata.resource_version
            return "unchanged" if same else "configured"

        return await _each(objects, one)

    if with_client(server, work):
        raise typer.Exit(FAILED)


def create(
    filename: Filename,
    server: Server = "",
    namespace: Namespace = "default",
    strict: Strict = False,
) -> None:
    """Create the objects of manifests; an object that exists is an error."""
    objects = read_manifests(filename, namespace, strict=strict)

    async def work(client: ApiClient) -> int:
        async def one(message: AnyObject) -> str:
            created = await client.create(message)
            message.metadata.name = created.metadata.name
            return "created"

        return await _each(objects, one)

    if with_client(server, work):
        raise typer.Exit(FAILED)


async def changes(client: ApiClient, request: WatchRequest) -> AsyncIterator[AnyObject]:
    """The objects that change from a revision on, through broken connections."""
    while True:
        try:
            async for response in client.watch(request):
                for event in response.events:
                    yield unwrap(Object.FromString(event.object))
                if response.revision:
                    request.from_revision = response.revision
        except Unavailable:
            await asyncio.sleep(0.5)


def _print_objects(
    kind: Kind, items: Sequence[AnyObject], output: Output, *, single: bool, namespaces: bool
) -> None:
    if output is Output.NAME:
        for item in items:
            print(reference(item))
        return
    if output in (Output.YAML, Output.JSON):
        manifests = [to_manifest(item) for item in items]
        document: Any = (
            manifests[0] if single else {"apiVersion": "v1", "kind": "List", "items": manifests}
        )
        if output is Output.JSON:
            print(json.dumps(document, indent=2))
        else:
            print(yaml.safe_dump(document, sort_keys=False), end="")
        return
    table = printers.table_of(
        kind, items, time.time(), namespaces=namespaces, wide=output is Output.WIDE
    )
    printers.plain_console().print(table)


def get(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="One object's name; all when left out.")] = "",
    server: Server = "",
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Form of the output.")
    ] = Output.TABLE,
    selector: LabelSelector = "",
    field_selector: FieldSelector = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on and show changes.")] = False,
) -> None:
    """Show objects."""

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
        if not items and not watch and output in (Output.TABLE, Output.WIDE):
            place = "" if not scope else f" in {scope} namespace"
            print(f"No resources found{place}.", file=sys.stderr)
            return
        _print_objects(found, items, output, single=bool(name), namespaces=all_namespaces)
        if watch:
            await _watch(client, found, scope, name, revision)

    async def _watch(client: ApiClient, found: Kind, scope: str, one: str, revision: int) -> None:
        fields = ",".join(f for f in (field_selector, f"metadata.name={one}" if one else "") if f)
        request = WatchRequest(
            kinds=[found.name],
            namespace=scope,
            label_selector=selector,
            field_selector=fields,
            from_revision=revision,
        )
        async for obj in changes(client, request):
            if output in (Output.TABLE, Output.WIDE):
                cells = printers.row_of(
                    found, obj, time.time(), namespaces=all_namespaces, wide=output is Output.WIDE
                )
                print("   ".join(cells), flush=True)
            else:
                _print_objects(found, [obj], output, single=True, namespaces=all_namespaces)
                sys.stdout.flush()

    if name and (selector or field_selector):
        fail("a name and a selector cannot be given together", USAGE)
    with_client(server, work)


def describe_command(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="The object's name.")],
    server: Server = "",
    namespace: Namespace = "default",
) -> None:
    """Show one object in full, with its events."""

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
        print(describing.describe(obj, events, pods, time.time()))

    with_client(server, work)


def delete(
    kind: Annotated[str, typer.Argument(help="pods, nodes, ...")] = "",
    names: Annotated[list[str] | None, typer.Argument(help="Names of the objects.")] = None,
    filename: Annotated[
        list[str] | None, typer.Option("--filename", "-f", help="Delete what these manifests name.")
    ] = None,
    server: Server = "",
    namespace: Namespace = "default",
    selector: LabelSelector = "",
    everything: Annotated[bool, typer.Option("--all", help="All objects of the kind.")] = False,
    grace_period: Annotated[
        int, typer.Option(help="Seconds a pod gets to end; -1 for what its spec says.")
    ] = -1,
    ignore_not_found: Annotated[bool, typer.Option(help="A missing object is no error.")] = False,
) -> None:
    """Delete objects by kind and names, by selector, or those of manifests."""
    grace = None if grace_period < 0 else grace_period
    if filename:
        objects = read_manifests(filename, namespace, strict=False)
        targets = [(kind_of(o), o.metadata.namespace, o.metadata.name) for o in objects]
    elif kind and names:
        found = find_kind_or_fail(kind)
        targets = [(found, namespace if found.namespaced else "", name) for name in names]
    elif kind and (selector or everything):
        found = find_kind_or_fail(kind)
        _delete_many(server, found, namespace, selector, grace)
        return
    else:
        fail("name the objects: KIND NAME..., KIND -l SELECTOR, KIND --all, or -f FILE", USAGE)

    async def work(client: ApiClient) -> int:
        failures = 0
        for found, where, name in targets:
            try:
                await client.delete(found.name, name, where, grace_period_seconds=grace)
                print(f"{found.name.lower()}/{name} deleted")
            except NotFound as exc:
                if not ignore_not_found:
                    failures += 1
                    print(f"error: {exc}", file=sys.stderr)
        return failures

    if with_client(server, work):
        raise typer.Exit(FAILED)


def find_kind_or_fail(kind: str) -> Kind:
    """The kind by any of its names, or one line and exit."""
    try:
        return find_kind(kind)
    except LookupError as exc:
        fail(str(exc))


def _delete_many(server: str, kind: Kind, namespace: str, selector: str, grace: int | None) -> None:
    async def work(client: ApiClient) -> int:
        return await client.delete_collection(
            kind.name,
            namespace if kind.namespaced else "",
            label_selector=selector,
            grace_period_seconds=grace,
        )

    print(f"{with_client(server, work)} {kind.plural} deleted")


def label(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(help="The object's name.")],
    changes: Annotated[list[str], typer.Argument(help="KEY=VALUE to set, KEY- to remove.")],
    server: Server = "",
    namespace: Namespace = "default",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace existing values.")
    ] = False,
) -> None:
    """Set or remove labels."""
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
        print(f"{found.name.lower()}/{name} labeled")

    with_client(server, work)


def _parse_taint(text: str) -> tuple[str, str, str, bool]:
    """(key, value, effect, remove) of key=value:Effect, key:Effect, key:Effect- or key-."""
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
    name: Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")],
    changes: Annotated[
        list[str], typer.Argument(help="KEY[=VALUE]:EFFECT to add, KEY[:EFFECT]- to remove.")
    ],
    server: Server = "",
) -> None:
    """Add taints to a node or remove them."""
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
        print(f"node/{name} {'untainted' if all(p[3] for p in parsed) else 'tainted'}")

    with_client(server, work)


def _set_unschedulable(server: str, names: Sequence[str], value: bool, done: str) -> None:
    async def work(client: ApiClient) -> None:
        for name in names:
            await client.patch("Node", name, {"spec": {"unschedulable": value or None}})
            print(f"node/{name} {done}")

    with_client(server, work)


Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of the nodes.")]


def cordon(names: Nodes, server: Server = "") -> None:
    """Mark nodes as unschedulable."""
    _set_unschedulable(server, names, True, "cordoned")


def uncordon(names: Nodes, server: Server = "") -> None:
    """Mark nodes as schedulable again."""
    _set_unschedulable(server, names, False, "uncordoned")
