"""/statusz and /flagz, in Kubernetes' format: what runs since when, and with which options."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsched.lib.printable import printable_line

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility "
    "guarantees and is for debugging purposes only."
)


@dataclass(frozen=True, slots=True)
class Component:
    """What runs, and in which version."""

    name: str = "podsched"
    version: str = ""


def status_text(component: Component, started: float, now: float, paths: Sequence[str]) -> str:
    """Return the page; ``started`` and ``now`` are seconds since the epoch."""
    up = max(0, int(now - started))
    began = time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(started))
    return "\n".join(
        (
            "",
            f"{component.name} statusz",
            _WARNING,
            "",
            f"Started: {began}",
            f"Up: {up // 3600} hr {up // 60 % 60:02} min {up % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {component.version}",
            f"Paths: {' '.join(sorted(paths))}",
            "",
        )
    )


def flags_text(component: Component, flags: Mapping[str, str]) -> str:
    """Return the page of the options in effect, by name."""
    lines = (printable_line(f"{name}={value}") for name, value in sorted(flags.items()))
    return "\n".join(("", f"{component.name} flags", _WARNING, "", *lines, ""))
