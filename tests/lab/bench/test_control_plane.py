"""Binaries and versions with which schedulers cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.lab.bench.control_plane import NotComparableError, binaries, check_versions


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
