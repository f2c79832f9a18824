"""Commands run in this process, and a small cluster for those that need a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.cli import client
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient
from support.commands import Commands


@pytest.fixture
def sched(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The command line, without what the environment of the tests says."""
    for name in ("SCHED_SERVER", "SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Commands()


@pytest.fixture
def in_memory(sched: Commands, monkeypatch: pytest.MonkeyPatch) -> CommandClient:
    """What the command line calls in place of a server."""
    calls = CommandClient(FakeCluster())
    monkeypatch.setattr(client, "open_client", lambda *_, **__: nullcontext(calls))
    return calls


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands give up after two seconds, not after ten, when no server answers."""
    options = client.client_options
    monkeypatch.setattr(client, "client_options", lambda **a: replace(options(**a), timeout=2.0))


@pytest.fixture
def taken() -> Iterator[str]:
    """An address that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """etcd, an API server, a scheduler and two hollow nodes, as processes."""
    options = LocalClusterOptions(
        tmp_path_factory.mktemp("cluster"), replicas=1, nodes=2, evaluator="local", fsync=False
    )
    with asyncio.Runner() as runner:
        running = LocalCluster(options)
        runner.run(running.start())
        try:
            yield running
        finally:
            runner.run(running.stop())
