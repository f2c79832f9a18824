"""Makes command-line options from dataclass fields that are flags (``config.flags``)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from inspect import Parameter
from itertools import chain
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from podsched.cli.errors import USAGE, fail
from podsched.config.errors import ConfigError
from podsched.config.flags import FLAG
from podsched.lib.docstrings import attribute_docstrings
from podsched.telemetry.logs import masked

R = TypeVar("R")


def takes_flags(command: Callable[..., R]) -> Callable[..., R]:
    """Replace a command's dataclass parameters by options, one for each flag field.

    The docstring below a field is the help text, unless the field's type is an option that commands
    share, such as ``Namespace``. Invalid values exit with a usage error. A tuple of
    strings is written A,B,...; options of other tuples may be repeated.
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    kinds = {one.name: one.annotation for one in parameters if is_dataclass(one.annotation)}
    options: list[Parameter] = []
    for one in parameters:
        kind = kinds.get(one.name)
        options += [one.replace(kind=Parameter.KEYWORD_ONLY)] if kind is None else _options(kind)

    def run(*args: Any, **given: Any) -> R:
        made = {name: _made(kind, given) for name, kind in kinds.items()}
        return command(*args, **made, **given)

    run.__doc__, run.__name__ = command.__doc__, command.__name__
    run.__annotations__ = {one.name: one.annotation for one in options}
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return run


def _options(kind: Any) -> Iterator[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    # The last one counts: a field's text replaces the text of a base class.
    bases = reversed(kind.__mro__[:-1])
    texts = dict(chain.from_iterable(attribute_docstrings(base).items() for base in bases))
    for name, (names, about), default in _flags(kind):
        hint: Any = hints[name]
        if get_origin(hint) is Annotated:
            yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            continue
        if hint == tuple[str, ...]:
            hint, default = str, ",".join(default)
        elif get_origin(hint) is tuple:
            hint, default = list[get_args(hint)[0]], list(default)  # type: ignore[misc]
        if hint is bool and not names:
            names = [_option(name)]
        annotation: Any = Annotated[hint, typer.Option(*names, help=texts[name], **about)]
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _made(kind: Any, given: dict[str, Any]) -> Any:
    """Return the dataclass with the values of its options, which are removed from ``given``."""
    values = {}
    for name, _, default in _flags(kind):
        if name not in given:
            continue
        value = given.pop(name)
        if isinstance(default, tuple):
            parts = map(str.strip, value.split(",")) if isinstance(value, str) else value or ()
            value = tuple(filter(None, parts))
        values[name] = value
    return validated(kind, values)


def validated(kind: Callable[..., R], values: dict[str, Any]) -> R:
    """Return the dataclass; exit if values are invalid, with an error that names the options."""
    options = {
        name: max(names, key=len) if names else _option(name)
        for name, (names, _), _ in _flags(kind)
    }
    try:
        return kind(**values)
    except ConfigError as exc:
        errors = [replace(error, path=options.get(error.path, error.path)) for error in exc.errors]
        fail(str(ConfigError(errors, exc.source)), USAGE)


def shared(given: Any, kind: Any) -> dict[str, Any]:
    """Return the values of the fields that another dataclass has, too."""
    names = {one.name for one in fields(given)} & {one.name for one in fields(kind)}
    return {name: getattr(given, name) for name in names}


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def _flags(kind: Any) -> Iterator[tuple[str, tuple[list[str], dict[str, Any]], Any]]:
    return ((f.name, f.metadata[FLAG], f.default) for f in fields(kind) if FLAG in f.metadata)


def flags_in_effect(ctx: Any) -> dict[str, str]:
    """Return the options of a command by their names, without credentials."""
    found = {max(param.opts, key=len): ctx.params.get(param.name) for param in ctx.command.params}
    shown = {name: _text(value) for name, value in found.items() if name.startswith("--")}
    return {name: masked(text) for name, text in shown.items()}


def _text(value: object) -> str:
    """Return an option's value as on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return "" if value is None else str(value)
