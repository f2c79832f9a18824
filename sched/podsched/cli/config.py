"""``sched config``: the scheduler's configuration, printed and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsched.cli.client import FAILED, USAGE, fail, warn
from podsched.config.errors import ConfigError
from podsched.config.load import default_config, load_config, to_yaml
from podsched.engine.runtime.user_plugins import check_plugins, user_plugin_specs
from podsched.framework.plugin import PluginError

app = typer.Typer(
    help="The scheduler's configuration (KubeSchedulerConfiguration v1).", no_args_is_help=True
)


@app.command()
def default() -> None:
    """Print what a scheduler without a file runs with."""
    print(to_yaml(default_config()), end="")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A KubeSchedulerConfiguration.")],
    print_effective: Annotated[
        bool, typer.Option("--print", help="Print the file with all defaults filled in.")
    ] = False,
) -> None:
    """Check a file and the plugins it names; every mistake is shown, with its field path."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as exc:
        fail(f"{file}: {getattr(exc, 'strerror', None) or exc}", USAGE)
    try:
        config = load_config(text, name=str(file), known_plugins=user_plugin_specs())
        check_plugins(config)
    except ConfigError as exc:
        count = len(exc.errors)
        fail(f"{count} mistake{'s' if count > 1 else ''}:\n{exc}", FAILED)
    except PluginError as exc:
        fail(f"{file}: {exc}", FAILED)
    for warning in config.warnings:
        warn(f"{file}: {warning}")
    if print_effective:
        print(to_yaml(config), end="")
    else:
        names = ", ".join(profile.scheduler_name for profile in config.profiles)
        print(f"{file}: valid; profiles: {names}")
