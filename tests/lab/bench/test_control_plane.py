"""Binaries and versions with which schedulers cannot be compared; waiting for processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from podsched.app.supervisor import ProcessFailed, ProcessSpec
from podsched.lab.bench.control_plane import (
    NotComparableError,
    binaries,
    check_versions,
    comes_true,
)


def test_a_missing_binary_is_named_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch(mode=0o755)
    with pytest.raises(NotComparableError, match="no such file") as raised:
        binaries(tmp_path, ("etcd", "kube-apiserver"))
    assert str(raised.value).startswith(f"{tmp_path}/kube-apiserver: ")


def test_a_file_that_is_not_executable_is_no_binary(tmp_path: Path) -> None:
    (tmp_path / "etcd").touch(mode=0o644)
    with pytest.raises(NotComparableError, match="etcd: not executable"):
        binaries(tmp_path, ("etcd",))


@pytest.mark.parametrize("server", ["v1.36.0", "v1.36.2", "v1.37.1-rc.0", "v1.37.0+vendor"])
def test_an_api_server_may_be_one_minor_version_newer(server: str) -> None:
    check_versions("v1.36.2", server)


@pytest.mark.parametrize(
    ("scheduler", "server", "reason"),
    [
        ("v1.35.1", "v1.36.2", "podsched behaves as 1.36"),
        ("v1.37.0", "v1.37.0", "podsched behaves as 1.36"),
        ("v1.36.2", "v1.35.0", "the API server is v1.35.0"),
        ("v1.36.2", "v1.38.0", "the API server is v1.38.0"),
        ("v1.36.2", "None", '"None" is not a version of Kubernetes'),
    ],
)
def test_other_versions_are_refused(scheduler: str, server: str, reason: str) -> None:
    with pytest.raises(NotComparableError, match=reason):
        check_versions(scheduler, server)


class Waiting:
    """Waits 10 s for what is true from ``true`` on, with a process that runs until ``ends``."""

    def __init__(self, true: float = 1e9, ends: float = 1e9) -> None:
        self._true, self._ends = true, ends
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()
        self.looks: list[float] = []
        self.spec = ProcessSpec("etcd", [], 2379)

    @property
    def exit_code(self) -> int | None:
        return 1 if self._clock() - self._began >= self._ends else None

    def log_tail(self) -> str:
        return "no space left"

    async def _is_true(self) -> bool:
        self.looks.append(self._clock() - self._began)
        return self.looks[-1] >= self._true

    async def result(self) -> bool:
        process: Any = self
        return await comes_true(self._is_true, process, within=10.0, every=1.0)


@pytest.mark.looptime
async def test_what_comes_true_is_seen_at_the_next_look() -> None:
    waiting = Waiting(true=2.5)
    assert await waiting.result()
    assert waiting.looks == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.looptime
async def test_what_is_not_true_in_time_is_waited_for_no_longer() -> None:
    waiting = Waiting(true=11.0)
    assert not await waiting.result()
    assert waiting.looks[-1] == 10.0


@pytest.mark.looptime
async def test_nothing_is_waited_for_once_the_process_has_ended() -> None:
    waiting = Waiting(ends=2.5)
    with pytest.raises(ProcessFailed, match="etcd ended:\nno space left"):
        await waiting.result()
    assert waiting.looks[-1] == 3.0


@pytest.mark.looptime
async def test_what_is_true_is_true_although_the_process_has_ended() -> None:
    assert await Waiting(true=0.0, ends=0.0).result()
