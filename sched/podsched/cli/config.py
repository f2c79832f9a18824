"""The scheduler's configuration: read for other commands; ``sched config`` prints and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.help_texts import Command, Group
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config, to_yaml
from podsched.engine.runtime.user_plugins import check_plugins, user_plugin_specs
from podsched.framework.plugin import PluginError
from podsched.lib.files import FileTooLarge, read_file

app = typer.Typer(
    help="Print or check a KubeSchedulerConfiguration.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
)


_MAX_BYTES = 1 << 20


def read_config(path: Path | None) -> SchedulerConfiguration:
    """Return the configuration in a file, or the default; exit after printing every error."""
    return default_config() if path is None else _load(path, USAGE)


def _load(path: Path, code: int) -> SchedulerConfiguration:
    return load_text(config_text(path), path, code)


def config_text(path: Path) -> str:
    """Return the text of a file; exit if it cannot be read."""
    try:
        return read_file(path, _MAX_BYTES).decode()
    except FileTooLarge as exc:
        fail(f"{path}: too large for a configuration, {exc.strerror}", USAGE)
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"{path}: {getattr(exc, 'strerror', None) or exc}", USAGE)


def load_text(text: str, path: Path, code: int = USAGE) -> SchedulerConfiguration:
    """Load a file's text and check its plugins; exit with ``code`` if either has errors."""
    try:
        config = load_config(text, name=str(path), known_plugins=user_plugin_specs())
        check_plugins(config)
    except PluginError as exc:
        fail(f"{path}: {exc}", code)
    except ConfigError as exc:
        count = len(exc.errors)
        fail(f"invalid configuration, {count} error{'s' if count > 1 else ''}:\n{exc}", code)
    for warning in config.warnings:
        warn(f"{path}: {warning}")
    return config


@app.command(cls=Command)
def default() -> None:
    """Print the configuration that a scheduler uses without a file."""
    print(to_yaml(default_config()), end="")


@app.command(cls=Command)
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="KubeSchedulerConfiguration file.")],
    print_effective: Annotated[
        bool, typer.Option("--print", help="Print the configuration with all defaults filled in.")
    ] = False,
) -> None:
    """Check a file and the plugins it enables; report every error with its field path."""
    config = _load(file, FAILED)
    if print_effective:
        print(to_yaml(config), end="")
    else:
        names = ", ".join(profile.scheduler_name for profile in config.profiles)
        print(f"{file}: valid; profiles: {names}")
