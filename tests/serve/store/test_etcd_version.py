"""Versions of etcd with a known fault are told from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.serve.store.etcd_version import (
    Version,
    consistency_checks,
    known_fault,
    parse_version,
    version_of,
)


def test_the_version_is_read_from_what_etcd_prints() -> None:
    assert parse_version("etcd Version: 3.5.1\nGit SHA: e8732fb5f\nGo Version: go1.16.3\n") == (
        (3, 5, 1)
    )
    assert parse_version("Git SHA: 3.5.1\n") is None


@pytest.mark.parametrize("version", [(3, 5, 0), (3, 5, 1), (3, 5, 2)])
def test_versions_that_may_corrupt_their_data_are_named(version: Version) -> None:
    number = ".".join(map(str, version))
    assert known_fault(version).startswith(f"etcd {number} may corrupt its data when it is killed")


@pytest.mark.parametrize("version", [(3, 4, 34), (3, 5, 3), (3, 5, 16), (3, 6, 0), None])
def test_other_versions_are_not(version: Version | None) -> None:
    assert known_fault(version) == ""


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ((3, 5, 1), ["experimental-initial-corrupt-check", "experimental-corrupt-check-time"]),
        ((3, 6, 0), ["feature-gates", "corrupt-check-time"]),
        ((3, 4, 34), []),
        (None, []),
    ],
)
def test_an_etcd_checks_its_data_by_the_options_that_its_version_has(
    version: Version | None, options: list[str]
) -> None:
    assert list(consistency_checks(version)) == options


@pytest.mark.integration
async def test_a_binary_is_asked_and_one_that_is_none_has_no_version(tmp_path: Path) -> None:
    binary = tmp_path / "etcd"
    binary.write_text("#!/bin/sh\necho 'etcd Version: 3.5.21'\n")
    assert await version_of(binary) is None
    binary.chmod(0o700)
    assert await version_of(binary) == (3, 5, 21)
