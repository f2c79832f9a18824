"""One candidate as a process: `election_replica.py ENDPOINT IDENTITY LEASE TTL ELECTION`.

LEASE, TTL and ELECTION: seconds of its lease, its liveness key and its election timeout (0: none).

Prints one JSON line per event, with CLOCK_MONOTONIC seconds, which processes of a machine share.
SIGTERM releases the lock. While it believes to lead it writes, every 20 ms, one key with its fence
and one without, and prints each change of what became of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time

from podsched.api.etcd_keys import term_key
from podsched.config.leader_election import LeaderElectionSettings
from podsched.serve.store.errors import StoreError
from podsched.serve.store.etcd import EtcdOptions, connect
from podsched.serve.store.protocol import Compare, Put, Store
from podsched.term.election.elector import LeaderElector
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.events import StopReason
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from podsched.v1 import api_pb2


def say(event: str, **fields: object) -> None:
    print(json.dumps({"at": time.monotonic(), "event": event, **fields}), flush=True)


async def write(store: Store, identity: str, fence: api_pb2.Fence) -> None:
    """Write as a leader that never looks whether it still leads, until cancelled."""
    held = [Compare.mod_revision_is(term_key(fence.lock), fence.term)]
    before = None
    while True:
        with contextlib.suppress(StoreError):
            fenced = await store.txn(held, [Put("/work/fenced", identity.encode())])
            free = await store.txn([], [Put(f"/work/free/{identity}", b"")])
            after = (fenced.succeeded, free.succeeded)
            if after != before:
                say("write", term=fence.term, fenced=after[0], free=after[1])
            before = after
        await asyncio.sleep(0.02)


async def main(
    endpoint: str, identity: str, lease: str, liveness_ttl: str, election_timeout: str
) -> None:
    store = await connect(EtcdOptions(endpoints=(endpoint,)))
    writers: list[asyncio.Task[None]] = []

    def started(fence: api_pb2.Fence) -> None:
        say("started", term=fence.term)
        writers.append(asyncio.create_task(write(store, identity, fence)))

    def stopped(reason: StopReason) -> None:
        say("stopped", reason=reason.value)

    callbacks = ElectionCallbacks(started, stopped, lambda leader: say("leader", identity=leader))
    settings = LeaderElectionSettings(
        lease_duration=int(lease), renew_deadline=int(lease) * 2 / 3, retry_period=2
    )
    options = ElectionOptions(
        liveness_ttl=int(liveness_ttl), election_timeout=float(election_timeout)
    )
    lock = EtcdLock(store, settings, options.liveness_ttl)
    elector = LeaderElector(lock, settings, identity, callbacks, options=options)
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: writers.append(asyncio.create_task(elector.stop()))
    )
    await elector.run()
    say("ended")
    for writer in writers:
        writer.cancel()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
