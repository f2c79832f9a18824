"""Commands that store and remove whole objects: apply, create, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from podsched.api.kinds import Kind, find_kind, kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.client import (
    FAILED,
    USAGE,
    Namespace,
    Server,
    fail,
    report,
    with_client,
)
from podsched.cli.manifests import read_manifests
from podsched.client.api_client import ApiClient
from podsched.client.errors import ClientError, NotFound, Unavailable

Filename = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="A manifest, a directory of them, or - for standard input. May be repeated.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unknown fields instead of warning.")]
KIND_HELP = "A kind: pods, pod or po; nodes; priorityclasses or pc; pdb; events; leases; ..."
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help=KIND_HELP)]
LabelSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="Only objects with these labels, such as app=web,tier!=front.",
    ),
]


def reference(message: AnyObject) -> str:
    """Kubectl's name of an object: pod/web."""
    return f"{kind_of(message).name.lower()}/{message.metadata.name}"


async def _each(objects: Sequence[AnyObject], act: Any) -> int:
    """Apply ``act`` to each object, print what became of it, and count the failures."""
    failures = 0
    for message in objects:
        try:
            print(f"{reference(message)} {await act(message)}")
        except ClientError as exc:
            if isinstance(exc, Unavailable):
                raise
            failures += 1
            report(f"{reference(message)}: ", exc)
    return failures


async def _create(client: ApiClient, message: AnyObject) -> str:
    created = await client.create(message)
    message.metadata.name = created.metadata.name  # generateName gives one
    return "created"


def _merge_of(message: AnyObject) -> dict[str, Any]:
    """All of the manifest but the status. Its resourceVersion, if it has one, is the version that
    the change was made to: the server refuses it when the object has changed since.
    """
    manifest = to_manifest(message)
    for key in ("apiVersion", "kind", "status"):
        manifest.pop(key, None)
    return manifest


def apply(
    filename: Filename,
    server: Server = "",
    namespace: Namespace = "default",
    strict: Strict = False,
) -> None:
    """Create the objects of manifests, or update those that exist.

    A manifest with a resourceVersion changes that version only. Fields that a manifest leaves out
    stay as they are.
    """
    objects = read_manifests(filename, namespace, strict=strict)

    async def work(client: ApiClient) -> int:
        async def one(message: AnyObject) -> str:
            kind = kind_of(message)
            if not message.metadata.name and message.metadata.generate_name:
                return await _create(client, message)
            try:
                before = await client.get(
                    kind.name, message.metadata.name, message.metadata.namespace
                )
            except NotFound:
                return await _create(client, message)
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
        return await _each(objects, lambda message: _create(client, message))

    if with_client(server, work):
        raise typer.Exit(FAILED)


def delete(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=KIND_HELP)] = "",
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Names of the objects.")
    ] = None,
    filename: Annotated[
        list[str] | None,
        typer.Option(
            "--filename", "-f", metavar="FILE|DIR|-", help="Delete what these manifests name."
        ),
    ] = None,
    server: Server = "",
    namespace: Namespace = "default",
    selector: LabelSelector = "",
    everything: Annotated[bool, typer.Option("--all", help="All objects of the kind.")] = False,
    grace_period: Annotated[
        int, typer.Option(help="Seconds a pod gets to end; 0: now, -1: as its spec says.")
    ] = -1,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="A missing object is no error.")
    ] = False,
) -> None:
    """Delete objects by kind and names, by selector, or those of manifests."""
    grace = None if grace_period < 0 else grace_period
    if filename and (kind or selector or everything):
        fail("-f names the objects already: leave KIND, -l and --all out", USAGE)
    if names and (selector or everything):
        fail("names cannot be given together with -l or --all", USAGE)
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
                    report("", exc)
        return failures

    if with_client(server, work):
        raise typer.Exit(FAILED)


def find_kind_or_fail(kind: str) -> Kind:
    """Return the kind by any of its names, or one line and exit."""
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
