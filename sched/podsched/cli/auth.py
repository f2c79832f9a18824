"""``sched auth``: show the caller's identity and rights, and make tokens."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from google.protobuf.message import Message

from podsched.api.codec import LAST_SECOND
from podsched.cli.client import Namespace, Server, ServerFlags, with_client
from podsched.cli.errors import FAILED, USAGE, fail, fail_on
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.options import Days
from podsched.cli.output import say
from podsched.cli.printers import aligned
from podsched.config.flags import flag
from podsched.serve.server.access.settings import AccessError
from podsched.v1 import api_pb2 as v1

app = command_group("Show who you are and what you may do, or make a token.")

_SERVICE = "/podsched.v1.Authorization/"

M = TypeVar("M", bound=Message)


@app.command(cls=Command)
def whoami(server: Server = "") -> None:
    """Show your user and groups as the API server sees them."""
    found = _ask(
        server, "SelfSubjectReview", v1.SelfSubjectReviewRequest(), v1.SelfSubjectReviewResponse
    )
    rows = [
        ["Username", found.username],
        ["Groups", ", ".join(found.groups)],
        ["Authentication", found.authentication],
    ]
    if found.node:
        rows.append(["Node", found.node])
    if found.expires:
        at = datetime.fromtimestamp(min(found.expires, LAST_SECOND), UTC)
        rows.append(["Expires", f"{at:%Y-%m-%d %H:%M} UTC"])
    say(*aligned(rows))


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    as_user: str = flag("", "USER", names="--as")
    """Ask about this user; you need the right to impersonate."""
    as_group: list[str] | None = flag(None, "GROUP")
    """Ask about a member of this group; may be given several times."""
    namespace: Namespace = flag("default")
    all_namespaces: bool = flag(False, names="--all-namespaces -A")
    """Ask about all namespaces."""
    show_list: bool = flag(False, names="--list")
    """Show everything that is permitted in the namespace."""


@app.command("can-i", cls=Command)
@takes_flags
def can_i(
    given: _Flags,
    verb: Annotated[
        str, typer.Argument(metavar="VERB", help="get, list, watch, create, ...; * for all.")
    ] = "",
    kind: Annotated[
        str, typer.Argument(metavar="KIND[/SUBRESOURCE]", help="pods, nodes, pods/binding, ...; *.")
    ] = "",
    name: Annotated[str, typer.Argument(metavar="NAME", help="One object, not all.")] = "",
) -> None:
    """Print yes if something is permitted; else print no and exit with 1."""
    subject = v1.ReviewedSubject(username=given.as_user, groups=given.as_group or ())
    where = "" if given.all_namespaces else given.namespace
    if given.show_list:
        if verb or kind:
            fail("--list cannot be combined with VERB and KIND", USAGE)
        _print_rules(given.server, v1.SubjectRulesReviewRequest(subject=subject, namespace=where))
        return
    if not verb or not kind:
        fail("VERB and KIND are missing (or use --list)", USAGE)
    resource, _, subresource = kind.partition("/")
    request = v1.SubjectAccessReviewRequest(
        subject=subject,
        verb=verb,
        resource=resource,
        subresource=subresource,
        namespace=where,
        name=name,
    )
    found = _ask(given.server, "SubjectAccessReview", request, v1.SubjectAccessReviewResponse)
    say(("yes" if found.allowed else "no") + (f": {found.reason}" if found.reason else ""))
    if not found.allowed:
        raise typer.Exit(FAILED)


@app.command(cls=Command)
def token(
    user: Annotated[str, typer.Argument(metavar="USER", help="User of the token.")],
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="The API server's --token-file.")
    ],
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Group of the user; may be given several times."),
    ] = None,
    days: Days = 365,
) -> None:
    """Print a new token, and add its hash to the API server's file.

    API servers read the file again within a second of the next call. The token itself is not
    stored.
    """
    from podsched.serve.server.access.tokens import append, new_token

    made = new_token()
    expires = datetime.now(UTC) + timedelta(days=days)
    with fail_on(OSError, about=file), fail_on(AccessError, code=USAGE):
        append(file, made, user, tuple(group or ()), expires)
    say(made)


def _ask(server: str, method: str, request: Message, answer: type[M]) -> M:
    method = _SERVICE + method
    return with_client(
        server, lambda client: client.calls.unary(method, request, answer, repeatable=True)
    )


def _print_rules(server: str, request: v1.SubjectRulesReviewRequest) -> None:
    found = _ask(server, "SubjectRulesReview", request, v1.SubjectRulesReviewResponse)
    rows = [["RESOURCES", "API GROUPS", "RESOURCE NAMES", "VERBS"]]
    for rule in found.rules:
        shown = list(rule.resources) or list(rule.non_resource_urls)
        groups = [group or '""' for group in rule.api_groups]
        names = list(rule.resource_names) or ["*"]
        rows += [
            [resource, ",".join(groups), ",".join(names), " ".join(rule.verbs)]
            for resource in shown
        ]
    say(*aligned(rows))
