"""What every test needs."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from podsched.lib import event_loop

#: New objects, less those freed, after which Python looks for cycles. Tests that explore tens of
#: thousands of states spend a quarter of their time on that with the default of 700.
_NEW_OBJECTS = 20_000


def pytest_configure() -> None:
    """Have the cyclic collector look less often, and SIGINT end the processes that tests start.

    They inherit that it is ignored from a shell that runs the tests in the background; then a test
    that breaks off a process would only wait for its end.
    """
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the scenarios first.

    They wait most, and need little of the machine while other tests run beside them, which
    ``make test`` lets them do. What has to be quick comes when those are over.
    """
    items.sort(key=lambda item: "scenarios" not in item.path.parts)


def pytest_collection_finish() -> None:
    """Set aside from the cyclic collector what lasts as long as the run: modules and tests.

    Each of its looks at everything would take half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def logging_ends_with_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget how a test, or a command that it ran, configured logging.

    Loggers that remember the configuration of their first use would keep it for later tests.
    """
    configure = structlog.configure

    def configure_for_now(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    monkeypatch.setattr(structlog, "configure", configure_for_now)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def turns_are_not_over_at_virtual_time(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let what happens in a round not depend on how fast the machine is."""
    if request.node.get_closest_marker("looptime") is not None:
        monkeypatch.setattr(event_loop, "thread_time", lambda: 0.0)
