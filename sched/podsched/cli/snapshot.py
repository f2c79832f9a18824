"""``sched snapshot``: save and restore the contents of etcd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from podsched.api.etcd_keys import ROOT, parse_object_key
from podsched.cli.errors import FAILED, USAGE, fail, file_or_fail
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.output import say
from podsched.cli.printers import aligned
from podsched.cli.process_options import etcd_options
from podsched.cli.progress import working
from podsched.lib.certificate_error import CertificateError
from podsched.lib.run_directory import files_of_running
from podsched.lib.tasks import run_and_tidy_up
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.errors import EmbeddedEtcdError, StoreError
from podsched.serve.store.snapshot import (
    Contents,
    SnapshotError,
    contents_of,
    restore_snapshot,
    save_snapshot,
)

app = command_group("Save and restore the contents of etcd.")
T = TypeVar("T")

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="File of the snapshot.", show_default=False)
]


@app.command(cls=Command)
@takes_flags
def save(
    ctx: typer.Context,
    options: EtcdOptions,
    file: File,
    check: Annotated[
        bool, typer.Option(help="Restore it temporarily to check its contents.")
    ] = True,
) -> None:
    """Save a snapshot of etcd to a new FILE, and show its contents.

    Without --etcd-endpoints, it uses the etcd of the sched up that runs on this machine, if there
    is one.
    """
    options = etcd_options(options)
    source = ctx.get_parameter_source("endpoints")
    if source is not None and source.name == "DEFAULT" and (found := _running_etcd()):
        if len(found) > 1:
            names = ", ".join(each.endpoints[0] for each in found)
            fail(f"several sched up run: choose one with --etcd-endpoints: {names}", USAGE)
        (running,) = found
        options = replace(
            options, endpoints=running.endpoints, ca=running.ca, cert=running.cert, key=running.key
        )
    with working("saving", counted=True) as tell:
        size = _run(save_snapshot(options, file, tell))
    say(f"Saved {size:,} bytes to {file}; the checksum is right.")
    if check:
        _check(file, options)


@app.command(cls=Command)
def status(
    file: File,
    username: Annotated[
        str,
        typer.Option(
            "--etcd-username",
            envvar="SCHED_ETCD_USERNAME",
            metavar="NAME",
            help="etcd user; the password is read from SCHED_ETCD_PASSWORD.",
        ),
    ] = "",
) -> None:
    """Check a snapshot, and show its contents."""
    file_or_fail("", file)
    _check(file, etcd_options(EtcdOptions(username=username)))


@app.command(cls=Command)
def restore(
    file: File,
    data_dir: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY", help="Data directory for sched up; it must have no etcd."
        ),
    ],
) -> None:
    """Make a data directory for sched up from a snapshot.

    Stop all API servers and schedulers first: their memory is newer than the restored data. For an
    etcd with several members, restore each member with etcdutl.
    """
    file_or_fail("", file)
    with working("restoring"):
        _run(restore_snapshot(file, data_dir / "etcd"))
    say(f"Restored to {data_dir / 'etcd'}. Start it: sched up --data-dir {data_dir}")


def _running_etcd() -> list[EtcdOptions]:
    """Return the options to connect to the embedded etcd of each running ``sched up``."""
    found = []
    for file in files_of_running("up", "etcd-endpoint"):
        endpoint, *files = file.read_text().splitlines()
        ca, cert, key = map(Path, files) if files else (None, None, None)
        found.append(EtcdOptions((endpoint,), ca=ca, cert=cert, key=key))
    return found


def _check(file: Path, options: EtcdOptions) -> None:
    """Show the contents of a snapshot; exit if there are objects that cannot be read."""
    with working("checking the contents"):
        contents = _run(contents_of(file, ROOT, options.username, options.password))
    unreadable = _unreadable(contents)
    counts = contents.count(_kind_of)
    rows = [["KIND", "OBJECTS"], *([kind, f"{n:,}"] for kind, n in sorted(counts.items()))]
    say(f"Revision {contents.revision:,}")
    say(*(aligned(rows) if counts else ["The snapshot has no objects of podsched."]))
    if unreadable:
        kinds = ", ".join(f"{kind} {n:,}" for kind, n in sorted(unreadable.items()))
        fail(f"objects that cannot be read: {kinds}", FAILED)


def _kind_of(key: str) -> str:
    found = parse_object_key(key)
    return found[0].name if found is not None else "(locks and other keys)"


def _unreadable(contents: Contents) -> Counter[str]:
    from podsched.serve.server.entries import Entry  # the server's packages are needed here alone
    from podsched.serve.store.protocol import KeyValue

    found: Counter[str] = Counter()
    for key, value in contents.values:
        entry = Entry.of(KeyValue(key, value, 1, 1, 1))
        if entry is not None and not entry.is_readable():
            found[entry.kind.name] += 1
    return found


def _run(work: Coroutine[Any, Any, T]) -> T:
    try:
        return run_and_tidy_up(work)
    except (StoreError, SnapshotError, EmbeddedEtcdError, CertificateError) as error:
        fail(str(error), FAILED)
    except OSError as error:
        # A snapshot is written as FILE.part at first.
        name = str(error.filename or "snapshot").removesuffix(".part")
        fail(f"{name}: {error.strerror or error}", FAILED)
