"""Addresses to listen on: free ports, and whether other machines can reach one."""

from __future__ import annotations

import ipaddress
import itertools
import os
import socket
from collections.abc import Iterator
from typing import Final

#: Below those that Linux gives to outgoing connections (32768 and up; other systems 49152): one of
#: theirs may be taken between the look and the listener that is started for it.
_PORTS: Final = range(20_000, 32_768)
#: Places in _PORTS, around and around. Each process begins elsewhere, so that two that look at the
#: same time find different ones.
_places: Iterator[int] = itertools.count(os.getpid() * 127)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port that was free on the host's address a moment ago, another one each time.

    Raises:
        OSError: there is none.
    """
    for place in itertools.islice(_places, len(_PORTS)):
        port = _PORTS[place % len(_PORTS)]
        if can_listen(host, port):
            return port
    raise OSError(f"no port of {host} from {_PORTS.start} to {_PORTS.stop - 1} is free")


def can_listen(host: str, port: int) -> bool:
    """Return whether an address can be listened on now.

    Port 0 always can, if the host is one of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on ``host``.

    Names other than localhost are not looked up: an answer may change after this check.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
