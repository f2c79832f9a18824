"""With TLS peers are replicas: those with a certificate of the same user."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from podsched.app.role_certificates import Wanted, make_missing, renew
from podsched.lib.certificate_error import CertificateError
from podsched.lib.tls_contexts import ConnectingContext, TlsFiles
from podsched.term.election.peers import PeerListener, PeerTls, follow_leader
from support.eventually import eventually
from support.listening import connections_to


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_missing(folder, Wanted())
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Certificates of every role, for this test alone."""
    return Path(shutil.copytree(made, tmp_path / "certs"))


def files_of(folder: Path, role: str) -> TlsFiles:
    return TlsFiles(*(str(folder / name) for name in ("ca.crt", f"{role}.crt", f"{role}.key")))


def replace_all(folder: Path) -> None:
    """By certificates of a new authority."""
    shutil.rmtree(folder)
    make_missing(folder, Wanted())


Reports = list[bool]
Follow = Callable[[int, TlsFiles | None], Reports]


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    tasks: list[asyncio.Task[None]] = []

    def start(port: int, files: TlsFiles | None) -> Reports:
        reports: Reports = []
        tls = PeerTls(files) if files else None
        following = follow_leader(
            f"127.0.0.1:{port}", "leader", reports.append, chance=random.random, tls=tls
        )
        tasks.append(asyncio.create_task(following))
        return reports

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.integration
async def test_a_replica_learns_that_the_leader_is_gone_whatever_hosts_its_certificate_names(
    folder: Path, follow: Follow
) -> None:
    listener = PeerListener("leader", PeerTls(files_of(folder, "scheduler")))
    reports = follow(await listener.start("127.0.0.1", 0), files_of(folder, "scheduler"))
    await eventually("a connection", lambda: len(listener.peers), 1)
    listener.close()
    await eventually("a report", lambda: True in reports)


@pytest.mark.integration
@pytest.mark.parametrize("role", ["agent", "server", "admin", ""])
async def test_others_learn_nothing(folder: Path, role: str) -> None:
    """Neither with a certificate of another user, nor without any."""
    listener = PeerListener("leader", PeerTls(files_of(folder, "scheduler")))
    port = await listener.start("127.0.0.1", 0)
    files = files_of(folder, role) if role else TlsFiles(str(folder / "ca.crt"), "", "")
    context = ConnectingContext(files, print, any_host=True).latest()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        said = await reader.read()
    except (ssl.SSLError, ConnectionError):
        said = b""
    assert said == b""
    writer.close()
    listener.close()


@pytest.mark.integration
async def test_most_handshakes_that_never_end_give_way(folder: Path, follow: Follow) -> None:
    """Otherwise strangers use up the files of the leader, and its memory."""
    listener = PeerListener("leader", PeerTls(files_of(folder, "scheduler")))
    port = await listener.start("127.0.0.1", 0)
    strangers = await asyncio.to_thread(
        lambda: [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    )
    try:
        follow(port, files_of(folder, "scheduler"))
        await eventually("a connection, the last of all", lambda: len(listener.peers), 1)
        assert connections_to([port]) <= 256
    finally:
        for stranger in strangers:
            stranger.close()
        listener.close()


@pytest.mark.integration
@pytest.mark.parametrize("role", ["agent", ""])
async def test_a_peer_without_the_leaders_certificate_does_not_count_as_the_leader(
    folder: Path, follow: Follow, role: str
) -> None:
    """With another user's certificate or in plain text: its end means nothing."""
    listener = PeerListener("leader", PeerTls(files_of(folder, role)) if role else None)
    reports = follow(await listener.start("127.0.0.1", 0), files_of(folder, "scheduler"))
    await asyncio.sleep(0.2)
    listener.close()
    await asyncio.sleep(0.2)
    assert reports == []


@pytest.mark.integration
async def test_renewed_certificates_are_used_for_the_next_connection(
    folder: Path, follow: Follow
) -> None:
    """Of a new authority: only those who have read the files again understand each other."""
    scheduler = files_of(folder, "scheduler")
    listener = PeerListener("leader", PeerTls(scheduler))
    port = await listener.start("127.0.0.1", 0)
    early = PeerTls(scheduler)
    replace_all(folder)
    reports = follow(port, scheduler)
    await eventually("a connection", lambda: len(listener.peers), 1)
    context = early.connecting()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert await reader.readline() == b"leader\n"
    writer.close()
    listener.close()
    await eventually("a report", lambda: True in reports)


def test_a_certificate_for_clients_only_is_refused(folder: Path) -> None:
    with pytest.raises(CertificateError, match=r"admin\.crt: for clients only"):
        PeerTls(files_of(folder, "admin"))


def test_an_unusable_renewal_is_said_and_the_old_certificate_stays(folder: Path) -> None:
    said: list[str] = []
    connecting = ConnectingContext(files_of(folder, "agent"), said.append)
    before = connecting.latest()
    (folder / "agent.key").write_bytes((folder / "ray.key").read_bytes())
    assert connecting.latest() is before
    assert len(said) == 1 and "agent.key: not the key" in said[0]
    renew(folder, 1)
    assert connecting.latest() is not before, "a renewal does not need the old key"
