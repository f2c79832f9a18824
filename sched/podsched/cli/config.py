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

app = typer.Typer(
    help="Print or check a KubeSchedulerConfiguration.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
)


_MAX_CHARACTERS = 1 << 20


def read_config(path: Path | None) -> SchedulerConfiguration:
    """Return the configuration in a file, or the default; exit after printing every error."""
    return default_config() if path is None else _load(path, USAGE)


def _load(path: Path, code: int) -> SchedulerConfiguration:
    """Load a file and check its plugins; exit with ``code`` if either has errors."""
    try:
        with path.open() as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"{path}: {getattr(exc, 'strerror', None) or exc}", USAGE)
    if len(text) > _MAX_CHARACTERS:
        fail(f"{path}: too large for a configuration, more than {_MAX_CHARACTERS >> 20} MiB", USAGE)
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
