"""Commands whose options are declared by several functions: together they are too many for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import typer

from podsched.cli.help_texts import Command
from podsched.telemetry.logs import masked

_FLAGS = "podsched.flags"


class GroupedCommand(Command):
    """A command that takes the options of ``groups`` as well as its own.

    A group is a function that declares options as commands do, and checks them. What the groups
    return is ``ctx.obj``, in their order.
    """

    groups: ClassVar[tuple[Callable[..., Any], ...]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._groups = [_options_of(function) for function in self.groups]
        self.params = [*self.params, *(param for group in self._groups for param in group.params)]

    def invoke(self, ctx: Any) -> Any:
        ctx.meta[_FLAGS] = dict(ctx.params)
        ctx.obj = tuple(
            group.callback(**{param.name: ctx.params.pop(param.name) for param in group.params})
            for group in self._groups
        )
        return super().invoke(ctx)


def _options_of(function: Callable[..., Any]) -> Any:
    """Return a command that has the options which a function declares."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(function)
    return typer.main.get_command(app)


def flags_in_effect(ctx: Any) -> dict[str, str]:
    """Return the options of a grouped command by their names, without credentials."""
    values = ctx.meta[_FLAGS]
    found = {max(param.opts, key=len): values.get(param.name) for param in ctx.command.params}
    shown = {name: _text(value) for name, value in found.items() if name.startswith("--")}
    return {name: masked(text) for name, text in shown.items()}


def _text(value: object) -> str:
    """Return an option's value as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return "" if value is None else str(value)
