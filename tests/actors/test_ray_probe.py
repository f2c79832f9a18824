"""Ray's processes are looked for, and asked whether they live, before they are joined."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podsched.actors.ray_probe import answers, raylet_sockets, tls_of
from podsched.lib.network import free_port
from podsched.lib.tls_contexts import TlsFiles
from support.eventually import PATIENCE

LINE = "ffff9f1c: 00000002 00000000 00010000 0001 01 32215 {}\n"


def listening(folder: Path, *paths: Path) -> Path:
    """The kernel's list of sockets, as /proc/net/unix has it."""
    table = folder / "unix"
    heading = "Num       RefCount Protocol Flags    Type St Inode Path\n"
    unnamed = LINE.format("").rstrip() + "\n"
    table.write_text(heading + unnamed + "".join(LINE.format(path) for path in paths))
    return table


@pytest.mark.parametrize("name", ["raylet", "raylet.6"])
def test_raylets_are_found_by_their_sockets(tmp_path: Path, name: str) -> None:
    path = tmp_path / "session_1" / "sockets" / name
    assert raylet_sockets(listening(tmp_path)) == frozenset()
    assert raylet_sockets(listening(tmp_path, path)) == frozenset(), "of another file system"
    path.parent.mkdir(parents=True)
    path.touch()
    found = raylet_sockets(listening(tmp_path, tmp_path / "other", path))
    assert found == {str(path)}


def test_where_the_kernel_does_not_tell_nothing_is_known(tmp_path: Path) -> None:
    assert raylet_sockets(tmp_path / "missing") is None


def test_ray_is_called_with_the_certificates_that_its_variables_name() -> None:
    names = {"RAY_TLS_CA_CERT": "ca", "RAY_TLS_SERVER_CERT": "crt", "RAY_TLS_SERVER_KEY": "key"}
    assert tls_of({"RAY_USE_TLS": "1", **names}) == TlsFiles("ca", "crt", "key")
    assert tls_of({"RAY_USE_TLS": "0", **names}) is None
    assert tls_of({}) is None


@pytest.fixture
async def silent() -> AsyncIterator[str]:
    """An address whose connections the kernel accepts, but no process answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.integration
async def test_a_connection_alone_is_no_answer(silent: str) -> None:
    assert not await answers(silent, 0.2)


@pytest.mark.integration
async def test_whatever_is_said_is_an_answer() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    port = free_port()
    server = await asyncio.start_server(refuse, "127.0.0.1", port)
    assert await answers(f"127.0.0.1:{port}", PATIENCE)
    server.close()
    await server.wait_closed()
    assert not await answers(f"127.0.0.1:{port}", PATIENCE)


@pytest.mark.parametrize("address", ["", "auto", "host:", "host:x"])
async def test_what_is_no_address_does_not_answer(address: str) -> None:
    assert not await answers(address, 0.2)
