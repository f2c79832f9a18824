"""Addresses to listen on: free ports, and whether other machines can reach one."""

from __future__ import annotations

import ipaddress
import socket


def free_port(host: str = "127.0.0.1") -> int:
    """Return a TCP port that was free on the host's address a moment ago."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


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
