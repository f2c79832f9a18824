"""Readiness follows etcd, and a database that fills up is warned of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from podsched.serve.server.etcd_monitor import PERIOD, TIMEOUT, EtcdMonitor
from podsched.serve.store.errors import Unavailable
from podsched.serve.store.protocol import GetResult, StoreStatus
from podsched.testing.memory_store import MemoryStore

pytestmark = pytest.mark.looptime


class Etcd(MemoryStore):
    """A store that can be down, hang, and be of any size."""

    down = hangs = False
    size = 0

    async def get(self, key: str, *, revision: int | None = None) -> GetResult:
        if self.hangs:
            await asyncio.sleep(3600)
        if self.down:
            raise Unavailable("connection refused")
        return await super().get(key, revision=revision)

    async def status(self) -> StoreStatus:
        return (await super().status())._replace(db_size=self.size)


class Watched:
    """A monitor that runs on a store, and what it has said."""

    def __init__(self) -> None:
        self.etcd = Etcd()
        self.monitor = EtcdMonitor(self.etcd, quota=1000)
        self.said: list[bool] = []
        self.task = asyncio.create_task(self.monitor.run(self._serving))

    async def _serving(self, serving: bool) -> None:
        self.said.append(serving)


@asynccontextmanager
async def watching() -> AsyncIterator[Watched]:
    watched = Watched()
    await asyncio.sleep(0.1)
    yield watched
    watched.task.cancel()


async def test_while_etcd_answers_there_is_no_problem() -> None:
    async with watching() as watched:
        await asyncio.sleep(10)
        assert watched.monitor.problem == ""
        assert watched.said == []


@pytest.mark.parametrize("fault", ["down", "hangs"])
async def test_an_outage_is_noticed_within_seconds_and_so_is_its_end(fault: str) -> None:
    async with watching() as watched:
        setattr(watched.etcd, fault, True)
        await asyncio.sleep(PERIOD + TIMEOUT + 0.1)
        assert "etcd" in watched.monitor.problem
        assert watched.said == [False]
        setattr(watched.etcd, fault, False)
        await asyncio.sleep(PERIOD + TIMEOUT + 0.1)
        assert watched.monitor.problem == ""
        assert watched.said == [False, True]


async def test_a_database_near_its_quota_is_warned_of_once() -> None:
    async with watching() as watched:
        watched.etcd.size = 799
        with capture_logs() as logs:
            await asyncio.sleep(60)
            assert logs == []
            watched.etcd.size = 800
            await asyncio.sleep(120)
        assert [(entry["log_level"], entry["bytes"]) for entry in logs] == [("warning", 800)]
        assert watched.monitor.status is not None
        assert watched.monitor.status.db_size == 800


async def test_clients_that_compare_servers_are_told_of_a_fault_within_half_a_second() -> None:
    etcd, said = Etcd(), []

    async def answering(answers: bool) -> None:
        said.append(answers)

    task = asyncio.create_task(EtcdMonitor(etcd, quota=1000).run_fast(answering))
    await asyncio.sleep(1)
    assert said == [True]
    etcd.hangs = True
    await asyncio.sleep(0.51)
    assert said == [True, False]
    etcd.hangs = False
    await asyncio.sleep(0.51)
    assert said == [True, False, True]
    task.cancel()
