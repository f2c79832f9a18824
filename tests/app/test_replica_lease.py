"""The Lease in which a replica says how it is."""

from __future__ import annotations

import pytest

from podsched.app.replica_lease import lease_name


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
