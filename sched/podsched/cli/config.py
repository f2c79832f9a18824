"""The scheduler's configuration: read for other commands; ``sched config`` prints and checks it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from podsched.cli.client import Server
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.help_texts import Command, Group
from podsched.cli.output import say
from podsched.cli.policy import (
    AlgorithmProvider,
    PolicyConfigMap,
    PolicyFile,
    Source,
    as_yaml,
    document_of,
)
from podsched.config.beta import converted
from podsched.config.errors import ConfigError
from podsched.config.load import SchedulerConfiguration, default_config, load_config, to_yaml
from podsched.engine.runtime.user_plugins import check_plugins, user_plugin_specs
from podsched.framework.plugin import PluginError

app = typer.Typer(
    help="Print, check or convert a KubeSchedulerConfiguration or a Policy.",
    cls=Group,
    rich_markup_mode=None,
    no_args_is_help=True,
)


def read_config(path: Path | None) -> SchedulerConfiguration:
    """Return the configuration in a file, or the default; exit after printing every error."""
    return read_source(Source(path))[0]


def read_source(source: Source, code: int = USAGE) -> tuple[SchedulerConfiguration, dict[str, Any]]:
    """Return the configuration that options name, and as a document; {} for the default one.

    Exits with ``code`` after printing every error in the files or their plugins.
    """
    name = source.name
    try:
        document = document_of(source)
        config = load_config(document, name=name, known_plugins=user_plugin_specs())
        check_plugins(config)
    except PluginError as exc:
        fail(f"{name}: {exc}", code)
    except ConfigError as exc:
        count = len(exc.errors)
        shown = exc if exc.source else ConfigError(exc.errors, name)
        fail(f"invalid configuration, {count} error{'s' if count > 1 else ''}:\n{shown}", code)
    for warning in config.warnings:
        if warning.partition(":")[0] in source.honoured:
            continue
        warn(f"{name}: {warning}")
    return config, document


@app.command(cls=Command)
def default() -> None:
    """Print the configuration that a scheduler uses without a file."""
    print(to_yaml(default_config()), end="")


File = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="KubeSchedulerConfiguration or Policy file."),
]


@app.command(cls=Command)
def check(
    file: File = None,
    policy_config_file: PolicyFile = None,
    policy_configmap: PolicyConfigMap = "",
    algorithm_provider: AlgorithmProvider = "",
    server: Server = "",
    print_effective: Annotated[
        bool, typer.Option("--print", help="Print the configuration with all defaults filled in.")
    ] = False,
) -> None:
    """Check a file and the plugins it enables; report every error with its field path."""
    source = Source(file, policy_config_file, policy_configmap, algorithm_provider, server)
    config, _ = _read_given(source)
    if print_effective:
        print(to_yaml(config), end="")
    else:
        names = ", ".join(profile.scheduler_name for profile in config.profiles)
        say(f"{source.name}: valid; profiles: {names}")


@app.command(cls=Command)
def convert(
    file: File = None,
    policy_config_file: PolicyFile = None,
    policy_configmap: PolicyConfigMap = "",
    algorithm_provider: AlgorithmProvider = "",
    server: Server = "",
) -> None:
    """Print the v1 KubeSchedulerConfiguration that does what an older file says.

    Of a Policy, or of v1beta2 or v1beta3. Reports every part that is wrong or has
    no equivalent. A file of v1 is printed as it is.
    """
    source = Source(file, policy_config_file, policy_configmap, algorithm_provider, server)
    _, document = _read_given(source)
    print(as_yaml(converted(document).document), end="")


def _read_given(source: Source) -> tuple[SchedulerConfiguration, dict[str, Any]]:
    if not source.given:
        fail("nothing to read: give a FILE or a Policy", USAGE)
    return read_source(source, FAILED)
