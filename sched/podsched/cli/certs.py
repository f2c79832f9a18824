"""``sched certs``: certificates for trying TLS out, and what stands in certificates."""

from __future__ import annotations

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import os_error_text, say
from podsched.lib.certificate_files import CertificateError

if TYPE_CHECKING:
    from podsched.lib.certificates import Description

app = typer.Typer(
    help="Make certificates for trying TLS out, or show certificates.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
)

_LONGEST_DAYS = 3650
#: A bundle of all public authorities is about 250 KB.
_MAX_BYTES = 1 << 20


@app.command(cls=Command)
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files.")],
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|IP",
            help="Name or address by which clients reach the API servers, besides localhost; "
            "may be given several times.",
        ),
    ] = None,
    node: Annotated[
        str, typer.Option(metavar="NAME", help="Node of the agent. Default: the host name.")
    ] = "",
    days: Annotated[
        int, typer.Option(min=1, max=_LONGEST_DAYS, metavar="N", help="Days until expiry.")
    ] = 365,
) -> None:
    """Make an authority, and certificates of the API server, scheduler, agent and administrator.

    NAME.crt and NAME.key for each of ca, server, scheduler, agent and admin. Nothing is
    overwritten. Who has ca.key can become anyone: keep it apart.
    """
    from podsched.lib.certificates import (
        SERVER,
        Request,
        certify,
        new_authority,
        write_new,
    )

    hosts = dict.fromkeys(["localhost", "127.0.0.1", "::1", *(host or ())])
    requests = {
        "server": Request("kube-apiserver", (), tuple(hosts), (SERVER,)),
        "scheduler": Request("system:kube-scheduler"),
        "agent": Request(f"system:node:{node or socket.gethostname()}", ("system:nodes",)),
        "admin": Request("admin", ("system:masters",)),
    }
    try:
        authority = new_authority("podsched CA", days)
        pairs = {"ca": authority}
        for name, request in requests.items():
            pairs[name] = certify(authority, request, days)
        files = {}
        for name, pair in pairs.items():
            files[f"{name}.crt"], files[f"{name}.key"] = pair.certificate_pem, pair.key_pem
        write_new(directory, files)
    except CertificateError as exc:
        fail(str(exc), USAGE)
    except OSError as exc:
        fail(f"{directory}: {os_error_text(exc)}", FAILED)
    for name, request in requests.items():
        groups = f", group {request.groups[0]}" if request.groups else ""
        say(f"{directory / name}.crt: {request.user}{groups}")
    say(f"{directory / 'ca.crt'}: the authority of all of them; valid for {days} days")


@app.command(cls=Command)
def show(
    path: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="Certificate file, or directory of *.crt.")
    ],
) -> None:
    """Print subject, issuer, hosts and dates of certificates; warn of those that expire."""
    from podsched.lib.certificates import describe

    files = sorted(path.glob("*.crt")) if path.is_dir() else [path]
    if not files:
        fail(f"{path}: no *.crt in this directory", USAGE)
    now = datetime.now(UTC)
    for file in files:
        try:
            with file.open("rb") as stream:
                found = describe(stream.read(_MAX_BYTES), str(file))
        except OSError as exc:
            fail(f"{file}: {os_error_text(exc)}", USAGE)
        except CertificateError as exc:
            fail(str(exc), FAILED)
        for description in found:
            _print(file, description)
            if problem := description.problem(now):
                warn(f"{file}: {problem}")


def _print(file: Path, description: Description) -> None:
    say(f"{file}:")
    say(f"  subject:  {description.subject}")
    say(f"  issuer:   {description.issuer}")
    if description.hosts:
        say(f"  hosts:    {', '.join(description.hosts)}")
    begin, end = (f"{at:%Y-%m-%d %H:%M}" for at in (description.not_before, description.not_after))
    say(f"  valid:    {begin} to {end} UTC")
