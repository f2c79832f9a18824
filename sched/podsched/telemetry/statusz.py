"""/statusz: since when a process runs, and in which version, in Kubernetes' format."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

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
