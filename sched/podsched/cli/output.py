"""Output of commands; control characters in texts are not printed."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from typing import Any

from podsched.lib.printable import printable


def say(*lines: str, error: bool = False) -> None:
    """Print lines without the control characters in them, on standard error if it is an error.

    Without any line, an empty one is printed. If nobody reads errors, the command goes on: its exit
    code tells of them, too.
    """
    with suppress(BrokenPipeError) if error else nullcontext():
        print(printable("\n".join(lines)), file=sys.stderr if error else sys.stdout)


def show_answer(document: Any, lines: Iterable[str], *, as_json: bool) -> None:
    """Print the answer to a question: plain data as JSON, or lines of text."""
    if as_json:
        print(json.dumps(document, indent=2))
    else:
        for line in lines:
            say(line)


def open_streams() -> None:
    """Reopen closed standard streams, so that no other file gets their descriptors.

    To write to a standard output that was closed fails then like any other write.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Discard pending output, which cannot be written: the pipe is closed, or the disk is full."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def os_error_text(error: OSError) -> str:
    """Return the reason of an error on a file or stream."""
    if isinstance(error, io.UnsupportedOperation):  # see ``open_streams``
        return "standard output is closed"
    return error.strerror or str(error)
