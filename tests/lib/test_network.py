"""Free ports."""

from __future__ import annotations

import socket
import sys

import pytest

from podsched.lib.network import free_port

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reservations are Linux's")


def test_a_port_that_another_process_has_reserved_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    monkeypatch.setattr("podsched.lib.network._places", iter([port - 20_000, port - 19_999]))
    assert free_port() != port


def test_ports_stay_reserved_until_64_others_are_given_out() -> None:
    port = free_port()
    others = [free_port() for _ in range(63)]
    assert not _can_be_reserved(port)
    assert all(not _can_be_reserved(other) for other in others)
    free_port()
    assert _can_be_reserved(port)


def _can_be_reserved(port: int) -> bool:
    with socket.socket(socket.AF_UNIX) as reservation:
        try:
            reservation.bind(f"\0podsched-port-{port}")
        except OSError:
            return False
        return True
