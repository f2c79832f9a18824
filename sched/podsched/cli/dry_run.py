"""``--dry-run=server``: the API server checks a write and answers as usual, and stores nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class DryRun(StrEnum):
    """Values of ``--dry-run``."""

    NONE = "none"
    SERVER = "server"

    @property
    def asked(self) -> bool:
        """Whether nothing is to be stored."""
        return self is DryRun.SERVER

    @property
    def suffix(self) -> str:
        """What lines that say what was done end with, as kubectl's do."""
        return " (server dry run)" if self.asked else ""


DryRunOption = Annotated[
    DryRun,
    typer.Option(
        "--dry-run",
        help="server: have the API server check what is asked for, and change nothing.",
    ),
]
