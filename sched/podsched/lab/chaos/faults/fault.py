"""What a fault is: it lasts as long as a block, and says in words what it does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from podsched.lab.chaos.system import System

T = TypeVar("T")

Block = AbstractAsyncContextManager[str]

Do = Callable[[System, float], Block]
"""From the system and a number in [0, 1), which chooses among targets, to a block that the fault
lasts for. It yields what is done, in words.

Making and entering it may raise ``LookupError``, when there is nobody to do it to, and what the
means raise that it uses (``StoreError``, ``ClientError``, ``OSError``).
"""

Doing = AsyncIterator[str]
"""What the function under ``asynccontextmanager`` returns."""


def chosen(among: Sequence[T], pick: float) -> T:
    """Return one of several; ``pick`` in [0, 1). Raises ``LookupError`` without any."""
    if not among:
        raise LookupError("there is none to choose")
    return among[int(pick * len(among))]
