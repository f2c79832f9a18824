"""Commands that write whole objects: apply, create, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from podsched.api.kinds import Kind, find_kind, kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject
from podsched.cli.client import Namespace, Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail, report
from podsched.cli.manifests import read_manifests
from podsched.cli.output import say
from podsched.client.api_client import ApiClient
from podsched.client.errors import ClientError, NotFound, Unavailable

Filename = Annotated[
    list[str],
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE|DIR|-",
        help="Manifest file, directory of manifests, or - for standard input; repeatable.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unknown fields instead of warning.")]
KIND_HELP = "Kind of object, such as pods, pod or po; nodes; priorityclasses or pc; pdb; events."
KindArgument = Annotated[str, typer.Argument(metavar="KIND", help=KIND_HELP)]
LabelSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        metavar="SELECTOR",
        help="Select objects by labels, such as app=web,tier!=front.",
    ),
]


def reference(message: AnyObject) -> str:
    """Return the name of an object as kubectl prints it, such as pod/web."""
    return f"{kind_of(message).name.lower()}/{message.metadata.name}"


async def _each(objects: Sequence[AnyObject], act: Any) -> int:
    """Apply ``act`` to each object and print its results; return the number of failures."""
    failures = 0
    for message in objects:
        try:
            say(f"{reference(message)} {await act(message)}")
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
    """Return the merge patch that applies a manifest: all of it except the status.

    A resourceVersion in the manifest is kept: the server rejects the patch with a conflict if the
    object has changed since that version.
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
    """Create the objects in manifests, or update those that exist.

    Fields that a manifest leaves out keep their values. A manifest with a
    resourceVersion is only applied to that version of the object.
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
    """Create the objects in manifests; fail if one exists."""
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
            "--filename", "-f", metavar="FILE|DIR|-", help="Delete the objects in these manifests."
        ),
    ] = None,
    server: Server = "",
    namespace: Namespace = "default",
    selector: LabelSelector = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Delete all objects of the kind.")
    ] = False,
    grace_period: Annotated[
        int,
        typer.Option(
            help="Seconds that pods get to terminate; 0: at once, -1: as in the pod's spec."
        ),
    ] = -1,
    ignore_not_found: Annotated[
        bool, typer.Option("--ignore-not-found", help="Do not fail on missing objects.")
    ] = False,
) -> None:
    """Delete objects by name, by selector, or the objects in manifests."""
    grace = None if grace_period < 0 else grace_period
    names = names or []
    many = bool(selector or everything)
    _check_delete(kind, names, filename, many=many)
    if filename:
        objects = read_manifests(filename, namespace, strict=False)
        targets = [(kind_of(o), o.metadata.namespace, o.metadata.name) for o in objects]
    else:
        found = find_kind_or_fail(kind)
        if many:
            _delete_many(server, found, namespace, selector, grace)
            return
        targets = [(found, namespace if found.namespaced else "", name) for name in names]

    async def work(client: ApiClient) -> int:
        failures = 0
        for found, where, name in targets:
            try:
                await client.delete(found.name, name, where, grace_period_seconds=grace)
                say(f"{found.name.lower()}/{name} deleted")
            except NotFound as exc:
                if not ignore_not_found:
                    failures += 1
                    report("", exc)
        return failures

    if with_client(server, work):
        raise typer.Exit(FAILED)


def _check_delete(
    kind: str, names: Sequence[str], filename: Sequence[str] | None, *, many: bool
) -> None:
    """Exit unless exactly one way to name the objects is used."""
    if filename and (kind or many):
        fail("-f cannot be combined with KIND, -l or --all", USAGE)
    if names and many:
        fail("names cannot be combined with -l or --all", USAGE)
    if not filename and not (kind and (names or many)):
        fail("nothing to delete: use KIND NAME..., KIND -l SELECTOR, KIND --all, or -f FILE", USAGE)


def find_kind_or_fail(kind: str) -> Kind:
    """Return a kind by any of its names; exit if there is none."""
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

    say(f"{with_client(server, work)} {kind.plural} deleted")
