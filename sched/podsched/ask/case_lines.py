"""Runs files of cases: one JSON document a line, and one result for each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Result = dict[str, Any]


class Broken(Result):
    """The result of a case that cannot be read or run."""


def described(error: Exception) -> Result:
    """Return an error as a part of a result."""
    return {"error": f"{type(error).__name__}: {error}"}


def results_of(
    lines: Iterable[str | bytes],
    run: Callable[[Any], Result],
    *,
    key: str,
    read: Callable[[str | bytes], Any] = json.loads,
    broken: Callable[[Exception], Result] = described,
) -> Iterator[Result]:
    """Yield the result of ``run`` per line that is not blank, with the case's name under ``key``.

    A case without a name is called after its line. ``read`` returns the case of a line. ``broken``
    returns what the result, a ``Broken``, says of a case that cannot be read or run.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        name = f"line {number}"
        try:
            case = read(line)
            name = case.get(key, name)
            yield {key: name} | run(case)
        # A case may be wrong in any way, and must not end the run.
        except Exception as error:
            yield Broken({key: name} | broken(error))
