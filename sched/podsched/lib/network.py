"""Find free ports, check whether other machines can reach an address, and take URLs apart."""

from __future__ import annotations

import errno
import ipaddress
import itertools
import os
import socket
import sys
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, urlsplit

#: The ports to choose from. They are below those that systems give to outgoing connections (Linux
#: from 32768 on, others from 49152 on), because such a port may be taken between the check and the
#: start of the listener.
_PORTS: Final = range(20_000, 32_768)
#: Indices into _PORTS, modulo its length. Processes start at different ones.
_places: Iterator[int] = itertools.count(os.getpid() * 127)
#: The latest ports given out, reserved against other processes that search on this machine. It is
#: bounded because each is a file descriptor, and a port is listened on soon or not at all.
_reserved: Final[deque[socket.socket]] = deque(maxlen=64)

_ADVICE: Final = {
    errno.EADDRINUSE: "another process listens there: stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this is not an address of this machine",
    errno.EACCES: "permission denied: choose a port from 1024 on, or run as root",
}


def free_port(host: str = "127.0.0.1") -> int:
    """Return a free TCP port of a host's address, a different one each time.

    On Linux, no other process gets it from this function for as long as this process runs and
    asks for no more than 64 others. A program that does not use this function may still take it.
    Raises OSError if no port is free.
    """
    for place in itertools.islice(_places, len(_PORTS)):
        port = _PORTS[place % len(_PORTS)]
        if can_listen(host, port) and _reserve(port):
            return port
    raise OSError(f"no port of {host} from {_PORTS.start} to {_PORTS.stop - 1} is free")


def _reserve(port: int) -> bool:
    """Reserve a port against other processes; return False if one of them has it.

    The reservation is a socket in Linux's abstract namespace, which leaves nothing on the disk and
    ends with the process. Other systems have none, so two processes may get the same port there.
    """
    if sys.platform != "linux":
        return True
    reservation = socket.socket(socket.AF_UNIX)
    try:
        reservation.bind(f"\0podsched-port-{port}")
    except OSError:
        reservation.close()
        return False
    if len(_reserved) == _reserved.maxlen:
        _reserved.popleft().close()
    _reserved.append(reservation)
    return True


def can_listen(host: str, port: int) -> bool:
    """Return whether a listener could be started on an address now.

    For port 0 this tells whether the host is an address of this machine.
    """
    return not why_not_listen(host, port)


def why_not_listen(host: str, port: int) -> str:
    """Return why no listener could be started on an address now, and what to do; "" if it could."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        return _ADVICE.get(error.errno or 0, error.strerror or str(error))
    return ""


@lru_cache(maxsize=128)  # Servers ask for each request; parsing an address takes 10 us.
def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on ``host``.

    Names other than localhost count as reachable. They are not resolved, because the result may
    change after this check.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_ip_address(host: str) -> bool:
    """Return whether ``host`` is an IP address, and no name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def reachable_host(host: str) -> str:
    """Return this machine's name for a wildcard host, which is no address to connect to."""
    return socket.gethostname() if host in ("", "0.0.0.0", "::") else host


def http_url(text: str) -> SplitResult | None:
    """Return the parts of an http or https URL; None if it has no host, or an invalid port."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").encode("idna")
        valid = parts.scheme in ("http", "https") and host and parts.port != 0
    except ValueError:  # Brackets without their end, a port or a name in DNS that is not one.
        return None
    return parts if valid else None
