"""Runs files of cases, one JSON document per line, plain or gzipped; prints one result per line."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from podsched.ask.case_lines import described, results_of
from podsched.ask.simulation import open_scenarios, simulate_lines
from podsched.cli.errors import USAGE, fail, fail_on
from podsched.cli.manifests import MAX_BYTES
from podsched.framework.plugin import PluginError
from podsched.registry import factories, run_allocation_case

#: Seconds after which the search for devices is aborted: the default of filterTimeout.
SECONDS_PER_CASE = 10.0

Results = Callable[[Iterator[bytes]], Iterator[dict[str, Any]]]


class Fault(StrEnum):
    """The faults of Kubernetes v1.36.2 that allocations can reproduce: all, or one of them."""

    ALL = "1.36.2"
    LEAK = "leak"
    DISTINCT = "distinct"
    POOL_NAME = "pool-name"


def scenario_results(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the decision of each scenario."""
    return simulate_lines(lines, factories())


def allocation_results(lines: Iterator[bytes], faults: Sequence[Fault]) -> Iterator[dict[str, Any]]:
    """Yield the devices that the claims of each case get."""
    every = [fault.value for fault in Fault if fault is not Fault.ALL]
    kept = every if Fault.ALL in faults else [fault.value for fault in faults]

    def run(case: Mapping[str, Any]) -> dict[str, Any]:
        end = time.monotonic() + SECONDS_PER_CASE
        return run_allocation_case(case, kept, lambda: time.monotonic() > end)

    def broken(error: Exception) -> dict[str, Any]:
        return {"outcome": "error", "allocations": None} | described(error)

    return results_of(lines, run, key="name", broken=broken)


def print_results(path: Path, results: Results) -> None:
    """Print the results of a file's cases; exit if the file cannot be read, or has no case."""
    empty = True
    with (
        fail_on(PluginError),
        fail_on(OSError, EOFError, zlib.error, about=path, code=USAGE),
        open_scenarios(path) as lines,
    ):
        for result in results(_bounded(lines, path)):
            empty = False
            print(json.dumps(result, separators=(",", ":"), sort_keys=True))
    sys.stdout.flush()
    if empty:
        fail(f"{path}: no case in it; each line is one JSON document")


def _bounded(lines: IO[bytes], path: Path) -> Iterator[bytes]:
    while line := lines.readline(MAX_BYTES + 1):
        if len(line) > MAX_BYTES:
            fail(f"{path}: a line of more than {MAX_BYTES >> 20} MiB")
        yield line
