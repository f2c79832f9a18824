"""Free ports and URLs."""

from __future__ import annotations

import itertools
import socket
import sys

import pytest

from podsched.lib.network import free_port, http_url

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reservations are Linux's")


def test_a_port_that_another_process_has_reserved_is_not_given_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port = free_port()
    monkeypatch.setattr("podsched.lib.network._places", itertools.count(port - 20_000))
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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:80",
        "ftp://a",
        "http://",
        "http://[::1",
        "http://a:none",
        "http://a:0",
        "http://a..b",
    ],
)
def test_what_is_no_url_of_a_server_has_no_parts(text: str) -> None:
    assert http_url(text) is None


def test_a_url_of_a_server_has_its_host_and_port() -> None:
    parts = http_url("https://[::1]:6443/path")
    assert parts is not None
    assert (parts.scheme, parts.hostname, parts.port) == ("https", "::1", 6443)
