"""Who a replica is, and how it begins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.kinds import WATCHED_KINDS
from podsched.app.process import Process, ProcessOptions
from podsched.app.replica import Replica, ReplicaOptions, unique_identity
from podsched.config.errors import ConfigError
from podsched.config.load import default_config
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.term.election.options import ElectionOptions
from podsched.testing.fake_cluster import FakeCluster
from support.eventually import PATIENCE


class Backend:
    """A backend whose store does not answer, or refuses."""

    queues, controlled = True, None

    def __init__(self, refusal: Exception | None = None) -> None:
        self.cluster = FakeCluster()
        self.informer = self.cluster.informer(WATCHED_KINDS)
        self.refusal = refusal
        self.closed = False

    async def connect(self) -> None:
        if self.refusal is not None:
            raise self.refusal
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True


def replica_of(backend: Any) -> tuple[Process, Replica]:
    process = Process(ProcessOptions("scheduler"), MetricRegistry(), HealthChecks(), Tracer())
    options = ReplicaOptions(
        default_config(),
        SchedulerSettings(),
        ElectionOptions(),
        lambda *_: backend,
        ControllerSettings(),
    )
    return process, Replica(process, options)


async def test_a_replica_whose_store_does_not_answer_ends_when_asked() -> None:
    backend = Backend()
    process, replica = replica_of(backend)
    process.stop()
    async with asyncio.timeout(PATIENCE):
        assert await replica.connect() is None
    assert backend.closed


async def test_a_replica_whose_store_refuses_it_fails_with_the_reason() -> None:
    _, replica = replica_of(Backend(ConfigError([])))
    with pytest.raises(ConfigError):
        await replica.connect()


def test_two_processes_of_one_name_are_never_taken_for_each_other() -> None:
    first, second = unique_identity("replica-1"), unique_identity("replica-1")
    assert first != second
    assert first.rpartition("_")[0] == second.rpartition("_")[0] == "replica-1"
