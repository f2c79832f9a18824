"""The built-in workloads, from ``workloads.yaml`` beside this module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from podsched.lab.bench.ops import Workload
from podsched.lab.bench.workload_file import parse_workloads


def builtin_text() -> str:
    """Return the YAML of the built-in workloads."""
    return files("podsched.lab.bench").joinpath("workloads.yaml").read_text(encoding="utf-8")


@cache
def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in workloads."""
    return tuple(builtin_workloads())


@cache
def builtin_workloads() -> Mapping[str, Workload]:
    """Return the built-in workloads in their own sizes, by name."""
    return {workload.name: workload for workload in parse_workloads(builtin_text())}


def sized(name: str, params: Mapping[str, int]) -> Workload:
    """Return a built-in workload with other numbers; those that it does not have are left out."""
    found = parse_workloads(builtin_text(), params=params)
    return next(workload for workload in found if workload.name == name)
