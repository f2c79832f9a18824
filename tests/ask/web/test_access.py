"""Pages of strangers in the same browser get nothing."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from podsched.ask.web.access import HEADERS, foreign_site_reason, own_names

NAMES = own_names("board.example")


def reason(path: str = "/api/state", *, tls: bool = False, **headers: str) -> str:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    request = make_mocked_request("GET", path, told, sslcontext=Mock() if tls else None)
    return foreign_site_reason(request, NAMES)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:7480", "localhost:7480", "[::1]:7480", "10.0.0.7", "board.example:80"]
)
def test_the_process_is_called_by_its_addresses_and_own_names(host: str) -> None:
    assert reason(Host=host) == ""


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:7480", "", "x" * 500, "[", "[x]:1"]
)
def test_other_host_names_are_refused(host: str) -> None:
    assert "use the address" in reason(Host=host) or "nor an address" in reason(Host=host)


def test_over_tls_the_certificate_says_whose_name_it_is() -> None:
    assert reason(Host="any.example", tls=True) == ""


def test_requests_of_other_sites_are_refused() -> None:
    assert reason(Host="127.0.0.1", Sec_Fetch_Site="same-origin") == ""
    for site in ("cross-site", "same-site"):
        assert "other sites" in reason(Host="127.0.0.1", Sec_Fetch_Site=site)
    assert "other sites" in reason(Host="127.0.0.1:1", Origin="http://127.0.0.1:2")
    assert "other sites" in reason(Host="127.0.0.1:1", Origin="null")
    assert "other sites" in reason(Host="127.0.0.1:1", Origin="http://[")
    assert reason(Host="127.0.0.1:1", Origin="http://127.0.0.1:1") == ""


def test_a_link_from_elsewhere_leads_to_the_page_and_to_nothing_else() -> None:
    link = {"Host": "127.0.0.1", "Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}
    assert reason("/", **link) == ""
    assert "other sites" in reason("/api/state", **link)


def test_nothing_inline_and_nothing_from_elsewhere_may_run() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
