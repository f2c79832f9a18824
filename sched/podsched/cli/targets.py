"""Parses the target objects of a command: ``pods web-0 web-1``, ``pods,nodes``, ``pod/web-0``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from podsched.api.kinds import KINDS, Kind, UnknownKindError, find_kind
from podsched.api.objects import AnyObject
from podsched.cli.client import client_options, endpoints, open_client
from podsched.cli.errors import USAGE, fail, unknown_kind_text
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError

_NAMES_AT_ONCE = 500


class Target(NamedTuple):
    """One object, or all of a kind."""

    kind: Kind
    name: str
    """Empty for all."""
    namespace: str
    """Empty for kinds without namespaces, and for all namespaces."""

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.name}"

    @property
    def event_selector(self) -> str:
        """The field selector of the object's events."""
        return f"involvedObject.name={self.name},involvedObject.kind={self.kind.name}"

    async def get(self, client: ApiClient) -> AnyObject:
        """Return the object. Raises ClientError."""
        return await client.get(self.kind.name, self.name, self.namespace)


def parse_targets(arguments: Sequence[str], namespace: str) -> list[Target]:
    """Return the targets in the arguments; exit if they are malformed, or a kind is unknown."""
    if "" in arguments[1:]:
        # An unset variable of a script must not turn one object into all of them.
        fail('"" is not the name of an object', USAGE)
    if any("/" in argument for argument in arguments):
        return [_one(argument, namespace) for argument in arguments]
    kinds = [_kind(name) for name in arguments[0].split(",") if name] if arguments else []
    if not kinds:
        fail("no objects: use KIND, KIND NAME... or KIND/NAME...", USAGE)
    names = arguments[1:] or [""]
    return [_target(kind, name, namespace) for kind in kinds for name in names]


def _kind(name: str) -> Kind:
    try:
        return find_kind(name)
    except UnknownKindError as exc:
        fail(unknown_kind_text(exc))


def _target(kind: Kind, name: str, namespace: str) -> Target:
    return Target(kind, name, namespace if kind.namespaced else "")


def _one(argument: str, namespace: str) -> Target:
    kind, slash, name = argument.partition("/")
    if not slash:
        fail(f'"{argument}" is not KIND/NAME like the other arguments', USAGE)
    if not kind or not name or "/" in name:
        fail(f'"{argument}" is not KIND/NAME', USAGE)
    return _target(_kind(kind), name, namespace)


def split_changes(arguments: Sequence[str], marks: str = "=") -> tuple[list[str], list[str]]:
    """Split arguments into names of objects and changes.

    ``marks``: characters that only a change has, besides a "-" at its end.
    """
    changes = [a for a in arguments if not set(marks).isdisjoint(a) or a.endswith("-")]
    return [a for a in arguments if a not in changes], changes


async def resolve(client: ApiClient, targets: Sequence[Target], selector: str = "") -> list[Target]:
    """Replace each target that means all of a kind by its objects. Raises ClientError.

    Exits if there is a selector beside names, which it would not select from.
    """
    return [target for target, _ in await resolve_with_uids(client, targets, selector)]


async def resolve_with_uids(
    client: ApiClient, targets: Sequence[Target], selector: str = ""
) -> list[tuple[Target, str]]:
    """Do as ``resolve``; return each target with its uid, "" for one that was named."""
    if selector and any(target.name for target in targets):
        fail("names cannot be combined with -l", USAGE)
    found: list[tuple[Target, str]] = []
    for target in targets:
        if target.name:
            found.append((target, ""))
            continue
        kind, _, namespace = target
        listing = await client.list(kind.name, namespace, label_selector=selector)
        metas = (item.metadata for item in listing.items)
        found += [(Target(kind, meta.name, namespace), meta.uid) for meta in metas]
    return found


def nothing_found(targets: Sequence[Target]) -> str:
    """Return what is said, as by kubectl, if there are no objects."""
    place = f" in {targets[0].namespace} namespace" if targets[0].namespace else ""
    return f"No resources found{place}."


def check_scope(targets: Sequence[Target], selector: str, *, everything: bool) -> None:
    """Exit unless one of names, a selector and ``--all`` is given."""
    if selector and everything:
        fail("-l cannot be combined with --all", USAGE)
    named = any(target.name for target in targets)
    if named and (selector or everything):
        fail("names cannot be combined with -l or --all", USAGE)
    if not named and not (selector or everything):
        fail("no objects: name them, or use -l SELECTOR or --all", USAGE)


def complete_kinds(incomplete: str) -> list[str]:
    """Return the plurals of kinds that begin like this, for the shell."""
    done, comma, last = incomplete.rpartition(",")
    return [done + comma + k.plural for k in KINDS.values() if k.plural.startswith(last)]


def complete_targets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return kinds, or the names of objects of the kind given so far, for the shell."""
    given = [*(ctx.params.get("targets") or [])]
    kind, slash, prefix = incomplete.partition("/")
    if not slash and not given:
        return complete_kinds(incomplete)
    start = kind + slash if slash else ""
    names = _names(ctx, kind if slash else given[0], prefix if slash else incomplete)
    return [start + name for name in names]


def complete_nodes(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of nodes that begin like this, for the shell."""
    return _names(ctx, "nodes", incomplete)


def _names(ctx: typer.Context, kind: str, prefix: str) -> list[str]:
    """Return names from the server; none if it does not answer, or refuses."""
    params = ctx.params

    async def ask() -> list[str]:
        found = find_kind(kind.partition(",")[0])
        namespace = (params.get("namespace") or "default") if found.namespaced else ""
        addresses = endpoints(params.get("server") or "")
        async with open_client(addresses, client_options(), timeout=2.0) as client:
            items = (await client.list(found.name, namespace, allow_stale=True)).items
        names = [item.metadata.name for item in items]
        return [name for name in names if name.startswith(prefix)][:_NAMES_AT_ONCE]

    try:
        return asyncio.run(ask())
    except (ClientError, LookupError, typer.Exit):
        return []


_ARGUMENT = typer.Argument(
    metavar="KIND [NAME...] | KIND/NAME...",
    help="Objects: a kind such as pods, pod or po, several as pods,nodes, and names.",
    autocompletion=complete_targets,
)
Targets = Annotated[list[str], _ARGUMENT]
OptionalTargets = Annotated[list[str] | None, _ARGUMENT]

_NODES = typer.Argument(metavar="NODE", help="Names of the nodes.", autocompletion=complete_nodes)
OptionalNodes = Annotated[list[str] | None, _NODES]
