"""``sched leader``: hand over to another replica, and pause or resume scheduling."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from podsched.api.objects import Lease, seconds_of
from podsched.app.leader_requests import (
    HAND_OVER,
    REASON,
    name_of,
    pause_name,
    standbys,
)
from podsched.app.replica_lease import DEFAULT_LOCK, NAMESPACE
from podsched.cli.client import Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail
from podsched.cli.help_texts import Command, command_group
from podsched.cli.output import say
from podsched.cli.status import check_lock, lock_record, replica_leases
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, NotFound

app = command_group("Change the leader, or pause and resume scheduling.")
_LONGEST_REASON = 1000
#: Seconds within which another replica must lead, and between two reads of the lock.
_WITHIN, _LOOK_EVERY = 10.0, 0.02

Lock = Annotated[
    str, typer.Option(metavar="NAMESPACE/NAME", help="The lock of the replicas' leader election.")
]


@app.command(cls=Command)
def transfer(
    to: Annotated[
        str, typer.Option(metavar="REPLICA", help="Name or identity. Default: the best standby.")
    ] = "",
    server: Server = "",
    lock: Lock = DEFAULT_LOCK,
) -> None:
    """Let the leader hand over to a standby, and become a standby itself."""
    check_lock(lock)
    say(with_client(server, lambda client: _transfer(client, lock, to)))


async def _transfer(client: ApiClient, lock: str, to: str) -> str:
    leader = (await lock_record(client, lock)).spec.holder_identity
    if not leader:
        fail(f'no replica holds the lock "{lock}"', FAILED)
    if to and to in (leader, name_of(leader)):
        return f"{leader} is the leader already."
    leases = await replica_leases(client)
    own = next((lease for lease in leases if lease.spec.holder_identity == leader), None)
    if own is None:
        fail(f"{leader} has not published its state: it may be starting, or dead", FAILED)
    # Compared with the leader's last sign of life, not with the clock of this machine.
    renewed = seconds_of(own.spec.renew_time)
    found = standbys(leases, lock, lambda lease: renewed - seconds_of(lease.spec.renew_time))
    successor = chosen([standby.identity for standby in found], to)
    patch = {"metadata": {"annotations": {HAND_OVER: f"{successor} {time.time():.6f}"}}}
    await client.patch("Lease", own.metadata.name, patch, NAMESPACE)
    return await _wait_for(client, lock, leader, successor)


def chosen(found: Sequence[str], to: str) -> str:
    """Return the requested standby, or the best one; exit if there is none."""
    if not found:
        fail("no warm standby is ready to lead", FAILED)
    wanted = [each for each in found if not to or to in (each, name_of(each))]
    if not wanted:
        fail(f"--to: {to} is not a warm standby; these are: {', '.join(found)}", FAILED)
    return wanted[0]


async def _wait_for(client: ApiClient, lock: str, leader: str, successor: str) -> str:
    """Return the text to print once another replica leads; exit if it is the wrong one, or none."""
    asked = time.monotonic()
    holder = leader
    while holder in ("", leader) and time.monotonic() - asked < _WITHIN:
        await asyncio.sleep(_LOOK_EVERY)
        holder = (await lock_record(client, lock)).spec.holder_identity
    if holder in ("", leader):
        fail(f"{leader} has not handed over within {_WITHIN:g} s: see its log", FAILED)
    if holder != successor:
        fail(f"{holder} is the leader now, not {successor}: it got the lock first", FAILED)
    return f"{holder} leads after {time.monotonic() - asked:.2f} s, {leader} stands by."


@app.command(cls=Command)
def pause(
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Reason that sched status shows.")
    ] = "",
    server: Server = "",
    lock: Lock = DEFAULT_LOCK,
) -> None:
    """Pause scheduling; the leader keeps the lock.

    Until sched leader resume, pods stay pending, and nothing is evicted or
    garbage-collected. A new leader is paused, too.
    """
    check_lock(lock)
    if len(reason) > _LONGEST_REASON:
        fail(f"--reason: at most {_LONGEST_REASON} characters, not {len(reason)}", USAGE)
    lease = Lease()
    lease.metadata.name = pause_name(lock)
    lease.metadata.namespace = lock.partition("/")[0]
    if reason:
        lease.metadata.annotations[REASON] = reason
    lease.spec.holder_identity = _user()
    lease.spec.acquire_time.GetCurrentTime()

    async def create(client: ApiClient) -> str:
        try:
            await client.create(lease)
        except AlreadyExists:
            return "Scheduling is paused already."
        return "Scheduling is paused."

    say(with_client(server, create))


def _user() -> str:
    """Return the user's name; in a container, the user may have only a number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


@app.command(cls=Command)
def resume(server: Server = "", lock: Lock = DEFAULT_LOCK) -> None:
    """Resume scheduling after sched leader pause."""
    check_lock(lock)

    async def delete(client: ApiClient) -> str:
        try:
            await client.delete("Lease", pause_name(lock), lock.partition("/")[0])
        except NotFound:
            return "Scheduling is not paused."
        return "Scheduling is resumed."

    say(with_client(server, delete))
