"""The Lease in which a replica says how it is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, cast

import pytest

from podsched.api.objects import Lease
from podsched.app import replica_lease
from podsched.app.replica_lease import (
    COMPONENT,
    LABEL,
    ReplicaLease,
    lease_name,
    published,
)
from podsched.serve.client.api_client import ApiClient
from podsched.v1.api_pb2 import DeleteRequest


@pytest.mark.parametrize(
    ("replica", "lease"),
    [
        ("scheduler-0", "replica-scheduler-0"),
        ("Host.Example_ä1f", "replica-host.example--1f"),
        ("x" * 300, "replica-" + "x" * 245),
        ("trailing_", "replica-trailing"),
    ],
)
def test_a_replicas_lease_has_a_name_that_objects_may_have(replica: str, lease: str) -> None:
    assert lease_name(replica) == lease


def test_annotations_of_others_are_nothing_that_a_replica_has_published() -> None:
    lease = Lease()
    lease.metadata.annotations.update({"state": "leading", "podsched.io/state": "standby"})
    lease.metadata.annotations["term"] = "7"
    assert published(lease) == {"state": "standby"}


@pytest.mark.looptime
async def test_what_changes_all_the_time_is_written_with_the_rest_when_that_is_due() -> None:
    written: list[str] = []

    class Client:
        async def patch(self, kind: str, name: str, patch: Any, namespace: str) -> None:
            written.append(patch["metadata"]["annotations"]["podsched.io/load"])

    clock = asyncio.get_running_loop().time
    about = lambda: {"state": "leading", "load": f"{clock():.1f}"}  # noqa: E731
    lease = ReplicaLease(cast(ApiClient, Client()), "scheduler-0", "scheduler-0_1", about, list)
    running = asyncio.create_task(lease.run())
    await asyncio.sleep(1)
    assert len(written) == 1, "not for each change of the load"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.looptime
async def test_leases_of_replicas_that_ended_long_ago_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a name of its own, each process has another Lease, which stays if it is killed."""
    monkeypatch.setattr(replica_lease, "FORGOTTEN_AFTER", 0.0)
    deleted: list[tuple[str, int]] = []
    writes = itertools.count(1)

    class Client:
        async def patch(self, *_: Any) -> None:
            pass

        async def delete_many(self, deletions: Sequence[DeleteRequest]) -> None:
            deleted.extend((each.name, each.preconditions.resource_version) for each in deletions)

    def lease(replica: str, version: int = 7, component: str = COMPONENT) -> Lease:
        made = Lease()
        made.metadata.name, made.metadata.resource_version = lease_name(replica), str(version)
        made.metadata.labels[LABEL] = component
        return made

    def known() -> list[Lease]:
        others = lease("own"), lease("other", component="controller")
        return [lease("killed"), lease("alive", next(writes)), *others]

    about = lambda: {"state": str(next(writes))}  # noqa: E731
    own = ReplicaLease(cast(ApiClient, Client()), "own", "own_1", about, known)
    running = asyncio.create_task(own.run())
    await asyncio.sleep(0.1)
    assert deleted == [], "it may be renewed"
    await asyncio.sleep(0.2)
    assert deleted == [("replica-killed", 7)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
