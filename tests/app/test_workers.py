"""Addresses that several processes share."""

from __future__ import annotations

import socket

import pytest

from podsched.app.workers import Reserved

pytestmark = pytest.mark.integration


def test_a_reserved_address_has_a_port_that_only_workers_can_share() -> None:
    with (
        Reserved("127.0.0.1:0") as reserved,
        socket.socket() as worker,
        socket.socket() as other,
    ):
        host, _, port = reserved.address.rpartition(":")
        assert (host, port != "0") == ("127.0.0.1", True)
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        worker.bind((host, int(port)))
        worker.listen()
        with socket.create_connection((host, int(port))):
            pass
        with pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        with pytest.raises(OSError, match=f"cannot listen on {reserved.address}: Address already"):
            Reserved(reserved.address)
