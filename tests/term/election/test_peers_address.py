"""The address that a candidate writes into the record."""

from __future__ import annotations

import asyncio
import socket

import pytest

from podsched.term.election.peers import advertised_address, follow_leader


@pytest.mark.parametrize(
    ("listen", "advertise", "expected"),
    [
        ("127.0.0.1", "", "127.0.0.1:7500"),
        ("127.0.0.1", "replica-1", "replica-1:7500"),
        ("127.0.0.1", "replica-1:9000", "replica-1:9000"),
        ("::", "fd00::5", "fd00::5:7500"),
        ("::", "[fd00::5]", "[fd00::5]:7500"),
        ("::", "[fd00::5]:9000", "[fd00::5]:9000"),
        ("0.0.0.0", "", f"{socket.gethostname()}:7500"),
        ("::", "", f"{socket.gethostname()}:7500"),
    ],
)
def test_what_is_not_advertised_is_as_bound_and_a_wildcard_becomes_the_host_name(
    listen: str, advertise: str, expected: str
) -> None:
    assert advertised_address(listen, 7500, advertise) == expected


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:99999999",
        "127.0.0.1:-1",
        "127.0.0.1:x",
        "127.0.0.1",
        "",
        "a\0b:1",
        f"{'x' * 70}:1",
    ],
)
async def test_an_address_that_is_none_is_only_a_leader_that_cannot_be_reached(
    address: str,
) -> None:
    """Anybody who may write the record may have written it; the replica goes on."""
    reports: list[bool] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await follow_leader(address, "leader", reports.append, chance=lambda: 0.5)
    assert reports == []
