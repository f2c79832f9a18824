"""The run's own network namespaces, in which replicas can lose packets (Linux, as root).

    the run, etcd, API servers, agent          a replica
    10.77.0.1  veth-0  ------------------->  10.77.0.10  eth0
               veth-1  ------------------->  10.77.0.11  eth0

The run itself is in a namespace, too, so that the machine's network does not change. Everything
belongs to a mount namespace of the run: the kernel removes it with the last process, however the
run ends.

Packets are lost because of a wrong hardware address for the other end: both ends send as before,
and nothing arrives, no answer and no refusal. This needs only the ``ip`` command. With a blackhole
route ``connect`` would fail at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

#: The address of the run's own namespace, as replicas reach it.
HUB: Final = "10.77.0.1"
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 1 << 18
#: Where ``ip netns`` keeps names, and where it is itself when PATH is a user's.
_NAMES, _SBIN = Path("/var/run/netns"), "/usr/sbin:/sbin"
#: An address that no interface has.
_NOBODY = "02:00:00:00:00:ff"


class NamespacesUnavailable(Exception):
    """Namespaces are not available; the message says why and what to do."""


def enter() -> None:
    """Move this process into its own namespaces, where it has only loopback.

    Call it before starting threads that use the network, because existing threads do not move.

    Raises NamespacesUnavailable if it is not root, has no ``ip`` command, or may not.
    """
    if os.geteuid() != 0:
        raise NamespacesUnavailable("needs root")
    command = _ip()
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        _checked(libc.unshare(_CLONE_NEWNET | _CLONE_NEWNS))
        _checked(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
        _NAMES.mkdir(parents=True, exist_ok=True)
        _checked(libc.mount(b"podsched", str(_NAMES).encode(), b"tmpfs", 0, None))
    except OSError as error:
        raise NamespacesUnavailable(f"namespaces cannot be made here: {error.strerror}") from error
    subprocess.run([command, "link", "set", "lo", "up"], check=True)


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _ip() -> str:
    path = shutil.which("ip", path=f"{os.environ.get('PATH', '')}:{_SBIN}")
    if path is None:
        raise NamespacesUnavailable("needs the ip command (Debian: apt install iproute2)")
    return path


class Namespaces:
    """A namespace for each of several processes, by their names."""

    def __init__(self, names: Sequence[str]) -> None:
        """Create nothing yet. Raises NamespacesUnavailable without the ``ip`` command."""
        self._ip = _ip()
        self._numbers = {name: number for number, name in enumerate(names)}
        self._lost: Counter[tuple[str, bool]] = Counter()
        """How many faults lose what a process sends (True) or gets (False)."""

    async def make(self) -> None:
        """Create all namespaces, each with a link to this process's. Raises OSError."""
        for name, number in self._numbers.items():
            veth = f"veth-{number}"
            await self._run("netns", "add", name)
            await self._run("link", "add", veth, "type", "veth", "peer", "eth0", "netns", name)
            await self._connect(veth, HUB, self.address(name))
            await self._connect("eth0", self.address(name), HUB, "-n", name)
            await self._run("-n", name, "link", "set", "lo", "up")

    async def _connect(self, device: str, address: str, peer: str, *where: str) -> None:
        await self._run(*where, "address", "add", address, "peer", peer, "dev", device)
        await self._run(*where, "link", "set", device, "up")

    def address(self, name: str) -> str:
        return f"10.77.0.{10 + self._numbers[name]}"

    def launcher(self, name: str) -> tuple[str, ...]:
        """Return the command prefix that runs a command in the process's namespace."""
        return (self._ip, "netns", "exec", name)

    async def lose(self, name: str, *, sent: bool) -> None:
        """Lose all packets from a process, or all to it. Raises OSError."""
        self._lost[name, sent] += 1
        if self._lost[name, sent] == 1:
            wrong = ("lladdr", _NOBODY, "nud", "permanent")
            await self._run(*self._neighbour(name, "replace", wrong, sent=sent))

    async def heal(self, name: str, *, sent: bool) -> None:
        """Undo one ``lose``; others stay. Raises OSError."""
        self._lost[name, sent] -= 1
        if not self._lost[name, sent]:
            await self._run(*self._neighbour(name, "delete", (), sent=sent))

    def _neighbour(
        self, name: str, verb: str, how: tuple[str, ...], *, sent: bool
    ) -> tuple[str, ...]:
        """Return the command that sets the hardware address for packets of one direction."""
        if sent:
            return ("-n", name, "neighbour", verb, HUB, *how, "dev", "eth0")
        return ("neighbour", verb, self.address(name), *how, "dev", f"veth-{self._numbers[name]}")

    async def _run(self, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            self._ip, *arguments, stderr=asyncio.subprocess.PIPE
        )
        _, said = await process.communicate()
        if process.returncode:
            raise OSError(f"ip {' '.join(arguments)}: {said.decode(errors='replace').strip()}")
