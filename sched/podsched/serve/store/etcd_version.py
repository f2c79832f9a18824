"""Determines the version of an etcd binary, and its known faults."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path
from typing import TypeAlias

#: (3, 5, 1)
Version: TypeAlias = tuple[int, int, int]

_VERSION = re.compile(r"^etcd Version: (\d+)\.(\d+)\.(\d+)", re.MULTILINE)
#: Timeout in seconds of ``etcd --version``.
_TIMEOUT = 5.0
#: The etcd maintainers advise against these: https://github.com/etcd-io/etcd/issues/13766
_FIRST_FAULTY: Version = (3, 5, 0)
_LAST_FAULTY: Version = (3, 5, 2)
#: Interval of consistency checks; each blocks writes while it reads all data.
_BETWEEN_CHECKS = "4h"


async def version_of(binary: Path) -> Version | None:
    """Return the version of an etcd binary; None if unknown."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT):
            process = await asyncio.create_subprocess_exec(
                binary,
                "--version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            output, _ = await process.communicate()
            return parse_version(output.decode(errors="replace"))
    return None


def parse_version(output: str) -> Version | None:
    """Parse the output of ``etcd --version``; None if it has no version."""
    found = _VERSION.search(output)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def known_fault(version: Version | None) -> str:
    """Return a known fault of a version and its remedy; "" if none is known."""
    if version is None or not _FIRST_FAULTY <= version <= _LAST_FAULTY:
        return ""
    number = ".".join(map(str, version))
    return (
        f"etcd {number} may corrupt its data when it is killed, as 3.5.0 to 3.5.2 do: "
        "to keep data, put a later etcd on PATH first"
    )


def consistency_checks(version: Version | None) -> dict[str, str]:
    """Return the options that make this version check its data; {} if it is unknown.

    They make a member compare its data with the other members' at its start and every few hours,
    and refuse to serve if they differ.
    """
    if version is None or version < (3, 5, 0):
        return {}
    if version < (3, 6, 0):
        return {
            "experimental-initial-corrupt-check": "true",
            "experimental-corrupt-check-time": _BETWEEN_CHECKS,
        }
    return {"feature-gates": "InitialCorruptCheck=true", "corrupt-check-time": _BETWEEN_CHECKS}
