"""Help texts as plain text, with options and commands grouped by panel.

Typer's own tables cut option names that are longer than their column: at 80 columns that is every
name beyond some 25 characters, such as ``--pod-max-in-unschedulable-pods-duration``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

#: Title, and rows of term and description.
Sections = dict[str, list[tuple[str, str]]]


class Command(TyperCommand):
    """A command whose help groups the options by their ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _options(self.get_params(ctx), ctx))


class Group(TyperGroup):
    """A group of commands whose help groups the commands by their ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _options(self.get_params(ctx), ctx))
        sections: Sections = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            summary = (command.help or "").partition("\n\n")[0].replace("\n", " ")
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, summary))
        _write(formatter, sections)


def _options(params: Iterable[Any], ctx: Any) -> Sections:
    sections: Sections = {}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            default = "Arguments" if param.param_type_name == "argument" else "Options"
            title = getattr(param, "rich_help_panel", None) or default
            sections.setdefault(title, []).append(record)
    return sections


def _write(formatter: Any, sections: Sections) -> None:
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl(rows)
