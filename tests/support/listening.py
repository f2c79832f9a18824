"""On which addresses processes listen, read from /proc as ``ss -ltnp`` does."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

LISTEN, ESTABLISHED = "0A", "01"


def _address(text: str) -> str:
    """An address of /proc/net/tcp(6): words of 4 bytes, each little-endian."""
    raw = bytes.fromhex(text)
    words = [raw[i : i + 4][::-1] for i in range(0, len(raw), 4)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def listeners() -> dict[str, tuple[str, int]]:
    """Every listening TCP socket: its inode, address and port."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in Path("/proc/net", name).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN:
                address, _, port = fields[1].partition(":")
                found[fields[9]] = _address(address), int(port, 16)
    return found


def addresses_of(pids: Iterable[int]) -> set[str]:
    """The addresses on which these processes listen."""
    return {address for address, _ in _of(pids)}


def ports_of(pids: Iterable[int]) -> set[int]:
    """The ports on which these processes listen."""
    return {port for _, port in _of(pids)}


def connections_to(ports: Iterable[int]) -> int:
    """How many connections of other processes to these ports of loopback's there are."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    wanted = {f"{port:04X}" for port in ports}
    return sum(
        state == ESTABLISHED and local.partition(":")[2] in wanted
        for _, local, _, state, *_ in map(str.split, lines)
    )


def _of(pids: Iterable[int]) -> Iterator[tuple[str, int]]:
    known = listeners()
    for pid in pids:
        with contextlib.suppress(OSError):
            for entry in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{entry}")
                    inode = target.removeprefix("socket:[").removesuffix("]")
                    if inode in known:
                        yield known[inode]
