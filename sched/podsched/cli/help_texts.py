"""Help texts in plain text, grouped by panel; and commands that are imported only when called.

Typer's own tables cut option names that are longer than their column. At 80 columns, that is every
name with more than some 25 characters, such as ``--pod-max-in-unschedulable-pods-duration``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

#: The rows (term, description) of each section, by title.
Sections = dict[str, list[tuple[str, str]]]
#: A hyphen at which lines are not broken; it replaces "-" until all lines are broken.
_UNBREAKABLE = "\u2011"
#: The type that Typer appends to the name of an argument; a list of choices is kept.
_PYTHON_TYPE = re.compile(r" <[^|]*>$")
#: The form in which Typer shows the choices of an option that may be given several times.
_LIST = re.compile(r"<list\[(.*)\]>$")


class Command(TyperCommand):
    """A command whose help groups the options by their ``rich_help_panel``."""

    def get_help(self, ctx: Any) -> str:
        return _help_of(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return list(super().parse_args(ctx, _usual(args)))
        except Exception as error:
            _name_command(error, ctx)
            raise

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _options(self.get_params(ctx), ctx))


class Group(TyperGroup):
    """A group of commands whose help groups the commands by their ``rich_help_panel``."""

    def get_help(self, ctx: Any) -> str:
        return _help_of(self, ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write(formatter, _options(self.get_params(ctx), ctx))
        _write(formatter, self.command_sections(ctx))

    def command_sections(self, ctx: Any) -> Sections:
        """Return the commands with the first paragraphs of their help texts."""
        sections: Sections = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name, summary_of(command)))
        return sections


def command_group(help_text: str) -> typer.Typer:
    """Return a command that consists of several commands."""
    return typer.Typer(
        help=help_text, cls=Group, rich_markup_mode=None, no_args_is_help=True, add_completion=False
    )


class LazyCommand(NamedTuple):
    """A command that is imported when it is called: a function, or a Typer of several commands."""

    panel: str
    module: str
    """Has the function, of the command's name, or the Typer, named ``app``."""
    summary: str
    """The first paragraph of the command's help text."""

    def load(self, name: str) -> Any:
        """Import the command. Returns click's command or group."""
        module = import_module(self.module)
        found = getattr(module, "app", None) or getattr(module, name)
        if not isinstance(found, typer.Typer):
            app = typer.Typer(rich_markup_mode=None, add_completion=False)
            app.command(name, cls=Command)(found)
            found = app
        command = typer.main.get_command(found)
        command.name = name
        return command


class LazyGroup(Group):
    """A group that imports a command when it is called, and no command for the help text.

    To import all commands takes a second, most of it for Ray, NumPy and gRPC.
    """

    lazy: ClassVar[dict[str, LazyCommand]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(self.lazy)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        del ctx
        found = self.lazy.get(cmd_name)
        return found.load(cmd_name) if found else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.lazy and not args[0].startswith("-"):
            from podsched.cli.unknown_names import no_such_command  # not above: hardly ever needed

            ctx.fail(no_such_command(args[0], self.lazy))
        return super().resolve_command(ctx, args)

    def command_sections(self, ctx: Any) -> Sections:
        del ctx
        sections: Sections = {}
        for name, command in self.lazy.items():
            sections.setdefault(command.panel, []).append((name, command.summary))
        return sections


def _usual(arguments: list[str]) -> list[str]:
    """Return arguments with -o=json, as kubectl reads it, as -ojson; what follows -- is kept."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = [re.sub("^(-[A-Za-z])=", r"\1", argument) for argument in arguments[:end]]
    return options + arguments[end:]


def summary_of(command: Any) -> str:
    """Return the first paragraph of a command's help text, as one line."""
    return (command.help or "").partition("\n\n")[0].replace("\n", " ")


def _name_command(error: Any, ctx: Any) -> None:
    """Complete a usage error that Typer's parser raises without its command.

    If an option's value is missing, the option's metavar is added, too.
    """
    if getattr(error, "ctx", ctx) is not None:
        return
    error.ctx = ctx
    option = getattr(error, "option_name", None)
    for param in ctx.command.params:
        if option in param.opts and error.message.endswith("requires an argument."):
            error.message = f"{error.message[:-1]}: {param.get_help_record(ctx)[0]}"


def _options(params: Iterable[Any], ctx: Any) -> Sections:
    sections: Sections = {}
    for param in params:
        record = param.get_help_record(ctx)
        if record is not None:
            term, description = record
            default, term = "Options", _LIST.sub(r"<\1>", term)
            if param.param_type_name == "argument":
                default, term = "Arguments", _PYTHON_TYPE.sub("", term)
            title = getattr(param, "rich_help_panel", None) or default
            sections.setdefault(title, []).append((term, description))
    return sections


def _help_of(command: Any, ctx: Any) -> str:
    """Return a help text in which lines do not break at hyphens, so that names can be copied."""
    formatter = ctx.make_formatter()
    write_text, write_dl = formatter.write_text, formatter.write_dl

    def kept(text: str) -> str:
        return text.replace("-", _UNBREAKABLE)

    formatter.write_text = lambda text: write_text(kept(text))
    formatter.write_dl = lambda rows: write_dl([(term, kept(text)) for term, text in rows])
    command.format_help(ctx, formatter)
    return str(formatter.getvalue()).rstrip("\n").replace(_UNBREAKABLE, "-")


def _write(formatter: Any, sections: Sections) -> None:
    for title, rows in sections.items():
        with formatter.section(title):
            formatter.write_dl(rows)
