"""The Lease in which a replica says how it is."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from podsched.api.objects import Lease
from podsched.app.replica_lease import ReplicaLease, lease_name, published
from podsched.serve.client.api_client import ApiClient


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
    lease = ReplicaLease(cast(ApiClient, Client()), "scheduler-0", "scheduler-0_1", about)
    running = asyncio.create_task(lease.run())
    await asyncio.sleep(1)
    assert len(written) == 1, "not for each change of the load"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
