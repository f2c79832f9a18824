"""``sched debug bundle``: what there is to know of a cluster, in one archive."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.bundle_archive import MIB, Archive
from podsched.cli.bundle_cluster import add_cluster, add_this_machine
from podsched.cli.bundle_processes import Process, add_logs, add_process, processes_here
from podsched.cli.client import Server, client_options, endpoints, open_client
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import say
from podsched.cli.progress import progress_bar
from podsched.config.flags import flag
from podsched.lib.certificate_error import CertificateError

app = typer.Typer(
    help="Gather what is needed to find a fault.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
)


@app.callback()
def _debug() -> None:
    """Make the group one, although it has a single command."""


@dataclass(frozen=True, slots=True)
class _Flags:
    health: list[str] | None = flag(None, "URL")
    """Health address of a process that is not found; repeatable."""
    logs: list[Path] | None = flag(None, "FILE|DIR")
    """Log file, or directory of them; repeatable."""
    most: int = flag(64, "MIB", names="--max-size", min=1, max=4096)
    """Of all texts."""


@app.command(cls=Command)
@takes_flags
def bundle(
    given: _Flags,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="New file. Default: podsched-debug-TIME.tar.gz."),
    ] = None,
    server: Server = "",
) -> None:
    """Pack versions, configuration, status, metrics, logs and dumps of all processes into FILE.

    Replicas are found through the API server. Other processes and their logs
    are found if they run on this machine under the same user. Passwords,
    tokens, keys, and environment and arguments of containers are left out.
    Items that could not be collected are listed in report.txt and at the end.
    """
    path = file or Path(time.strftime("podsched-debug-%Y%m%d-%H%M%S.tar.gz"))
    if path.exists():
        fail(f"{path}: the file exists", USAGE)
    archive = Archive(given.most * MIB)
    try:
        asyncio.run(_collect(archive, server, given.health or [], given.logs or []))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    try:
        size = archive.write(path)
    except OSError as error:
        fail(f"{path}: {error.strerror or error}", FAILED)
    for line in archive.missing:
        say(f"warning: {line}", error=True)
    say(f"Wrote {len(archive.names)} files, {size:,} bytes, to {path}")
    if not archive.reached:
        fail("no process could be reached: the archive has only what is on this machine", FAILED)


async def _collect(archive: Archive, server: str, health: list[str], logs: list[Path]) -> None:
    addresses, options = endpoints(server), client_options()
    add_this_machine(archive)
    found = [Process(f"named-{number}", url) for number, url in enumerate(health)]
    found += processes_here(addresses)
    try:
        async with open_client(addresses) as client:
            found = await add_cluster(archive, client, found)
    except CertificateError as error:
        archive.miss("the API server", str(error))
    with progress_bar("processes", len(found), fewest=2) as progress:

        async def one(process: Process) -> None:
            await add_process(archive, process, options)
            progress.advance()

        await asyncio.gather(*(one(process) for process in found))
    add_logs(archive, [*(p.log for p in found if p.log is not None), *logs])


__all__ = ["app"]
