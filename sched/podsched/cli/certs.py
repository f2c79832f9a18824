"""``sched certs``: make certificates to try out TLS, and show certificates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsched.cli.errors import USAGE, fail, fail_on, warn
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.options import Days
from podsched.cli.output import say
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError
from podsched.lib.counted import counted
from podsched.lib.files import read_file

if TYPE_CHECKING:
    from podsched.lib.certificates import Description

app = command_group("Make certificates to try out TLS, or show certificates.")

#: Max bytes of a certificate file. A bundle of all public authorities has about 250 KB.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Flags:
    host: list[str] | None = flag(None, "NAME|IP")
    """Name or address by which others reach API servers, etcd, schedulers, agents or Ray, besides
    localhost; may be given several times."""
    node: str = flag("node-*", "NAME|PREFIX*")
    """Name of the agent's node, or the prefix of all of its nodes."""
    per_role: bool = flag(False)
    """Make a directory for each role with the files that its machines need, ca.crt included."""


@app.command(cls=Command)
@takes_flags
def init(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory for the files.")],
    given: _Flags,
    days: Days = 365,
) -> None:
    """Make an authority and a certificate for each role.

    NAME.crt and NAME.key for each of ca, server (the API servers), scheduler, agent, admin,
    kubelet-client, etcd, etcd-client, ray and monitoring; sa.key with sa.pub, which sign and verify
    tokens of ServiceAccounts; kubelet-ca, which signs kubelets' serving certificates. Only missing
    files are made, with the existing authority; nothing is overwritten. With ca.key one can act as
    anyone: keep it in a safe place.
    """
    from podsched.app.role_certificates import Wanted, days_of_authority, make_missing

    with fail_on(OSError, about=directory), fail_on(CertificateError, code=USAGE):
        made = make_missing(
            directory, Wanted(given.host or (), given.node, days), per_role=given.per_role
        )
        left = days_of_authority(directory) if any(one.new for one in made) else days
    for certificate in made:
        request = certificate.request
        groups = f", group {', '.join(request.groups)}" if request.groups else ""
        kept = "" if certificate.new else " (kept)"
        say(f"{certificate.path}: {request.user}{groups}{kept}")
    _warn_of_authority(left, days)


@app.command(cls=Command)
def renew(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory that sched certs init has filled.")
    ],
    days: Days = 365,
) -> None:
    """Replace certificates by new ones with the same names, and new keys and dates.

    For all NAME.crt in DIR and its subdirectories that the authority there, ca.crt with ca.key, has
    signed. The authority stays. Processes that use the files need no restart.
    """
    from podsched.app.role_certificates import days_of_authority
    from podsched.app.role_certificates import renew as renew_all

    with fail_on(OSError, about=directory), fail_on(CertificateError, code=USAGE):
        left = days_of_authority(directory)
        done = renew_all(directory, days)
    for path, problem in done:
        if problem:
            warn(f"{path}: {problem}")
        else:
            say(f"{path}: valid for {counted(min(days, left), 'day')}")
    _warn_of_authority(left, days)


def _warn_of_authority(left: int, days: int) -> None:
    """Warn that new certificates end with their authority, if it ends before ``days``."""
    if left < days:
        warn(f"the authority expires in {counted(left, 'day')}, and its certificates with it")


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
        with fail_on(CertificateError, code=USAGE), fail_on(OSError, about=file, code=USAGE):
            found = describe(read_file(file, _MAX_BYTES), str(file))
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
