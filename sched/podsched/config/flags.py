"""Declare fields of settings that are command-line flags of ``sched``.

The docstring below such a field is the flag's help text, up to the first empty line.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeVar

FLAG = "flag"

T = TypeVar("T")


def flag(
    default: T, metavar: str = "", panel: str | None = None, names: str = "", **more: Any
) -> T:
    """Return a dataclass field that is a flag.

    metavar: the placeholder of its value in the help text. panel: the heading above it there.
    names: the flag's names, separated by blanks; by default derived from the field's name. more:
    arguments of ``typer.Option``, such as ``min``.
    """
    about = {"metavar": metavar or None, "rich_help_panel": panel, **more}
    found: T = field(default=default, metadata={FLAG: (names.split(), about)})
    return found
