"""The number of requests that the fuzzer sends."""

from __future__ import annotations

import pytest

from support.commands import Commands
from support.examples import share

#: Without ``--requests``, where all examples are tried.
_REQUESTS = 2000


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest tests/fuzz --requests 200000``."""
    parser.addoption("--requests", type=int, default=None, help="Requests that the fuzzer sends.")


@pytest.fixture
def requests(pytestconfig: pytest.Config) -> int:
    """How many requests to send; the option exists only where pytest was given this folder."""
    number: int | None = pytestconfig.getoption("--requests", default=None)
    return number or share(_REQUESTS)


@pytest.fixture
def sched(monkeypatch: pytest.MonkeyPatch) -> Commands:
    """The command line, without what the environment of the tests says."""
    for name in ("SCHED_SERVER", "SCHED_TLS_CA", "SCHED_TLS_CERT", "SCHED_TLS_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Commands()
