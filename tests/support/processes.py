"""Processes for tests that read /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def python_in_own_session() -> Iterator[int]:
    """Run an interpreter that waits, and yield the id of its session.

    The session of the test itself will not do: in a pid namespace that was entered from outside,
    as a container's, its leader is not visible and its id is 0.
    """
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", "print(); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            yield child.pid
        finally:
            child.kill()


def commands_mentioning(text: str) -> list[str]:
    """The commands of other processes that mention a text."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes().decode() if entry.name.isdigit() else ""
        except OSError:
            continue
        if text in line and entry.name != str(os.getpid()):
            found.append(line)
    return found
