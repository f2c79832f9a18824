"""What every test needs."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from podsched.lib import event_loop
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from support.examples import QUICK, WHOLE
from support.leftovers import TemporaryFolder

#: New objects, less those freed, after which Python looks for cycles. Tests that explore tens of
#: thousands of states spend a quarter of their time on that with the default of 700.
_NEW_OBJECTS = 20_000
#: Files whose tests have the fixture ``kube`` of ``tests/integration``.
_OF_ONE_CLUSTER = ("integration/test_kube_clients.py", "integration/test_kubectl.py")
#: Lines about what was left behind that are shown.
_MOST_LEFT = 30


for _name, _examples in (("quick", QUICK), ("thorough", WHOLE)):
    # How long an example takes depends on what else the machine does.
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("quick")

_FOLDER = pytest.StashKey[TemporaryFolder]()


def pytest_configure(config: pytest.Config) -> None:
    """Have the cyclic collector look less often, and SIGINT end the processes that tests start.

    They inherit that it is ignored from a shell that runs the tests in the background; then a test
    that breaks off a process would only wait for its end.
    """
    gc.set_threshold(_NEW_OBJECTS, 10, 10)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_worker(config: pytest.Config) -> bool:
    """Return whether this is one of the processes among which pytest-xdist divides the tests."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many tests run at a time: those with real processes wait most of their time."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a worker file after file, in order: the tests of one file may share what they start.

    Those of the files that share a cluster go to one worker as well.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            return "kube" if file.endswith(_OF_ONE_CLUSTER) else file

    config.option.loadscopereorder = False
    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests with real processes first: they take longest, and wait for most of it."""
    items.sort(key=lambda item: item.get_closest_marker("integration") is None)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Give the run a temporary folder, before there are processes that inherit it."""
    if not _is_worker(session.config):
        session.config.stash[_FOLDER] = TemporaryFolder()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that has left processes or files behind."""
    folder = session.config.stash.get(_FOLDER, None)
    if folder is None or not (left := folder.leave()):
        return
    said = "The tests have left behind:\n  " + "\n  ".join(left[:_MOST_LEFT])
    place = ("tests", None, "the run")
    report = pytest.TestReport("tests", place, {}, "failed", said, "teardown")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if isinstance(reporter, pytest.TerminalReporter):
        reporter.stats.setdefault("error", []).append(report)
    if session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """Set aside from the cyclic collector what lasts as long as the run: modules and tests.

    Each of its looks at everything would take half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def etcd_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One etcd for the tests of a worker that need no more than that; each removes what it wrote,
    or has keys of its own."""
    options = EmbeddedEtcdOptions(tmp_path_factory.mktemp("etcd"), fsync=False)
    with asyncio.Runner() as runner:
        etcd = EmbeddedEtcd(options)
        runner.run(etcd.start())
        yield etcd.endpoint
        runner.run(etcd.stop())


@pytest.fixture(autouse=True)
def logging_ends_with_its_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget how a test, or a command that it ran, configured logging.

    Loggers that remember the configuration of their first use would keep it for later tests.
    Tracebacks are plain: rich takes a second for one, with the source and variables of each frame.
    """
    configure = structlog.configure
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    configure(processors=[*structlog.get_config()["processors"][:-1], plain])

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
