"""The form of a fault: a context manager that yields a description; and the choice of targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from podsched.lab.chaos.system import System

T = TypeVar("T")

Fault = Callable[[System, float], AbstractAsyncContextManager[str]]
"""A function of the system and a number in [0, 1), which selects the target. It returns a context
manager: the fault lasts for the block, and the manager yields a description.

Making and entering it may raise ``LookupError`` if there is no target, and ``StoreError``,
``ClientError`` or ``OSError``.
"""

Target = Callable[[System, float], str]
"""Returns the name of the process that a number in [0, 1) selects. Raises ``LookupError``."""

APIS = ("apiserver-0", "apiserver-1")


def chosen(among: Sequence[T], pick: float) -> T:
    """Return one of several; ``pick`` in [0, 1). Raises ``LookupError`` if there are none."""
    if not among:
        raise LookupError("there is none to choose")
    return among[int(pick * len(among))]


def chosen_with_rest(among: Sequence[T], pick: float) -> tuple[T, float]:
    """Return one of several, and a number in [0, 1) to make the next choice with."""
    return chosen(among, pick), pick * len(among) % 1.0


def leader(system: System, _: float) -> str:
    """Return the name of the leading replica."""
    return system.leader


def standby(system: System, pick: float) -> str:
    """Return one of the other replicas."""
    return chosen(system.standbys, pick)


def api(_: System, pick: float) -> str:
    """Return an API server."""
    return chosen(APIS, pick)


def agent(*_: object) -> str:
    """Return the agent of all nodes."""
    return "agent"
