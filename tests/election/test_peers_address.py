"""The address that a candidate writes into the record."""

from __future__ import annotations

import socket

import pytest

from podsched.election.peers import advertised_address


@pytest.mark.parametrize(
    ("listen", "advertise", "expected"),
    [
        ("127.0.0.1", "", "127.0.0.1:7500"),
        ("127.0.0.1", "replica-1", "replica-1:7500"),
        ("127.0.0.1", "replica-1:9000", "replica-1:9000"),
        ("0.0.0.0", "", f"{socket.gethostname()}:7500"),
        ("::", "", f"{socket.gethostname()}:7500"),
    ],
)
def test_what_is_not_advertised_is_as_bound_and_a_wildcard_becomes_the_host_name(
    listen: str, advertise: str, expected: str
) -> None:
    assert advertised_address(listen, 7500, advertise) == expected
