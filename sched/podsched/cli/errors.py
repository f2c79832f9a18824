"""Exit codes of commands, and errors and warnings on standard error."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer

from podsched.api.kinds import KINDS, UnknownKindError
from podsched.api.quantity import QuantityError
from podsched.cli.output import discard_output, os_error_text, say
from podsched.cli.unknown_names import suggestion
from podsched.serve.client.errors import ClientError

#: Exit codes: 1 the request failed, 2 usage error, 3 the server is unreachable. That a file or
#: directory on the command line is missing, cannot be read or has another format is a usage error;
#: that one cannot be written is not, and neither is a mistake in a manifest.
FAILED, USAGE, UNREACHABLE = 1, 2, 3


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print an error as one line and exit."""
    say(f"error: {message}", error=True)
    raise typer.Exit(code)


@contextmanager
def fail_on(*kinds: type[Exception], about: object = "", code: int = FAILED) -> Iterator[None]:
    """Exit with the reason if the block raises one of these errors.

    ``about``: the file, option or server that the message begins with; "" for none.
    """
    try:
        yield
    except kinds as exc:
        fail(f"{about}: {_text(exc)}" if about else _text(exc), code)


@contextmanager
def fail_if_cut_short() -> Iterator[None]:
    """Exit with a failure if the output's reader ends before the block, whose end matters."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
        fail("the reader of the output has ended; the rest was not done")


def _text(error: Exception) -> str:
    if isinstance(error, OSError):
        return os_error_text(error)
    # The API's errors have the value before the reason. A note names the object.
    text = f'"{error.text}": {error}' if isinstance(error, QuantityError) else str(error)
    return ": ".join([*getattr(error, "__notes__", ()), text])


def unknown_kind_text(error: UnknownKindError) -> str:
    """Return the text for a kind that does not exist, with those that may be meant."""
    return f"{error}{suggestion(error.name.lower(), (kind.plural for kind in KINDS.values()))}"


def warn(message: str) -> None:
    """Print a warning as one line."""
    say(f"warning: {message}", error=True)


def report(error: ClientError, subject: str = "") -> None:
    """Print an error: a line for each violation, each beginning with ``subject``."""
    texts = [str(error)]
    if len(error.violations) > 1:
        texts = [f"{v.field}: " * bool(v.field) + v.description for v in error.violations]
    say(*(f"error: {subject}{text}" for text in texts), error=True)


def file_or_fail(option: str, path: Path | str | None) -> str:
    """Return the path of a file; "" for ""; exit if it is missing or cannot be read.

    ``option`` that names it; "" for an argument.
    """
    if not path:
        return ""
    try:
        # A pipe is not opened: its writer would then wait for the one who really reads.
        if stat.S_ISREG(os.stat(path).st_mode):
            open(path, "rb").close()
            return str(path)
        why = "not a regular file"
    except FileNotFoundError:
        why = "no such file"
    except OSError as exc:
        why = os_error_text(exc)
    fail(f"{option}: {path}: {why}" if option else f"{path}: {why}", USAGE)


def pair_or_fail(files: Mapping[str, Path | str | None]) -> None:
    """Exit unless both files are given, by their options, and can be read, or none is given."""
    if any(files.values()) and not all(files.values()):
        fail(f"{' and '.join(files)} must be used together", USAGE)
    for option, path in files.items():
        file_or_fail(option, path)
