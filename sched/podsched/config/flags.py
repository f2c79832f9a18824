"""Fields of settings that are flags: what ``sched`` says of a flag stands with its setting."""

from __future__ import annotations

from dataclasses import field
from typing import Any, TypeVar

FLAG = "flag"

T = TypeVar("T")


def flag(
    default: T, metavar: str, text: str, panel: str | None = None, names: str = "", **more: Any
) -> T:
    """Return a dataclass's field that is a flag of ``sched``.

    metavar: "" for none; text: for the help text; panel: the heading above it there; names: unless
    they are the field's; more: of ``typer.Option``, such as ``min``.
    """
    about = {"metavar": metavar or None, "help": text, "rich_help_panel": panel, **more}
    found: T = field(default=default, metadata={FLAG: (names.split(), about)})
    return found
