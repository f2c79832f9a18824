"""``sched config``: print, check and apply configurations; and how other commands read one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from podsched.cli.client import Server, with_client
from podsched.cli.errors import FAILED, USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.help_texts import Command, command_group
from podsched.cli.manifests import STANDARD_INPUT, text_in
from podsched.cli.options import DryRun
from podsched.cli.output import say
from podsched.cli.policy import ConfigSource, document_of, text_of
from podsched.config.errors import ConfigError, FieldError
from podsched.config.legacy.beta import converted
from podsched.config.load import SchedulerConfiguration, default_config, to_yaml
from podsched.decide.runtime.user_plugins import load_usable
from podsched.framework.plugin import PluginError
from podsched.lib.counted import counted
from podsched.registry import factories
from podsched.v1.scheduling_pb2 import ApplyConfigRequest, ConfigOutcome

#: Seconds for validation, and for the leader to finish its work in progress.
_APPLY_TIMEOUT = 30.0

app = command_group("Print, check, convert or apply a configuration of the scheduler.")


def read_config(path: Path | None) -> SchedulerConfiguration:
    """Return the configuration in a file, or the default; exit after printing every error."""
    return read_source(ConfigSource(path))[0]


def read_source(
    source: ConfigSource, code: int = USAGE
) -> tuple[SchedulerConfiguration, dict[str, Any]]:
    """Return the configuration that options name, and its document ({} for the default one).

    Exits with ``code`` after printing every error in the files or their plugins.
    """
    name = source.name
    try:
        document = document_of(source)
        config = load_usable(document, factories(), name)
    except PluginError as exc:
        fail(f"{name}: {exc}", code)
    except ConfigError as exc:
        shown = exc if exc.source else ConfigError(exc.errors, name)
        fail(f"invalid configuration, {counted(len(exc.errors), 'error')}:\n{shown}", code)
    for warning in config.warnings:
        if warning.partition(":")[0] in source.honoured:
            continue
        warn(f"{name}: {warning}")
    return config, document


def config_reader(source: ConfigSource) -> Callable[[], SchedulerConfiguration] | None:
    """Return a function that reads the source again; None if no source is given.

    The function raises ConfigError.
    """
    if not source.given:
        return None

    def read() -> SchedulerConfiguration:
        try:
            document = document_of(source)
        except typer.Exit:
            # The error has been printed.
            raise ConfigError([FieldError("", None, f"{source.name} cannot be read")]) from None
        return load_usable(document, factories(), source.name)

    return read


@app.command(cls=Command)
def default() -> None:
    """Print the configuration that a scheduler uses without a file."""
    print(to_yaml(default_config()), end="")


File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="KubeSchedulerConfiguration or Policy file.")
]


@app.command(cls=Command)
@takes_flags
def check(
    source: ConfigSource,
    file: File = None,
    server: Server = "",
    print_effective: Annotated[
        bool, typer.Option("--print", help="Print the configuration with all defaults filled in.")
    ] = False,
) -> None:
    """Check a file and the plugins it enables; report every error with its field path."""
    source = replace(source, config=file, server=server)
    config, _ = _read_given(source)
    if print_effective:
        print(to_yaml(config), end="")
    else:
        names = ", ".join(profile.scheduler_name for profile in config.profiles)
        say(f"{source.name}: valid; profiles: {names}")


@app.command(cls=Command)
def apply(
    file: Annotated[
        Path,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="KubeSchedulerConfiguration; - reads standard input.",
        ),
    ],
    dry_run: Annotated[
        DryRun,
        typer.Option(
            "--dry-run", help="server: let the replicas validate it without changing anything."
        ),
    ] = DryRun.NONE,
    server: Server = "",
) -> None:
    """Let all running scheduler replicas switch to another configuration.

    Each replica validates it first, with its own plugins; if one refuses it, nothing changes. A
    restarted replica reads its own file again: change that file, too.
    """
    text = text_in(STANDARD_INPUT, sys.stdin.buffer) if str(file) == "-" else text_of(file)
    request = ApplyConfigRequest(scheduler_configuration=text, validate_only=dry_run.asked)
    answer = with_client(
        server, lambda c: c.apply_config(request, timeout=_APPLY_TIMEOUT), of_replicas=True
    )
    outcomes = sorted(answer.replicas, key=lambda one: one.replica)
    for warning in dict.fromkeys(w for one in outcomes for w in one.warnings):
        warn(warning)
    for mistake in dict.fromkeys(e for one in outcomes for e in one.errors):
        refusing = [one.replica for one in outcomes if mistake in one.errors]
        where = "" if len(refusing) == len(outcomes) else f"{', '.join(refusing)}: "
        say(f"error: {where}{mistake}", error=True)
    for one in outcomes:
        say(f"{one.replica}: {_outcome_text(one, dry_run=dry_run.asked)}")
    if any(one.errors for one in outcomes):
        raise typer.Exit(FAILED)


def _outcome_text(outcome: ConfigOutcome, *, dry_run: bool) -> str:
    leads = " (leader)" if outcome.leading else ""
    if outcome.applied:
        return f"applied{leads}; profiles: {', '.join(outcome.profiles)}"
    if outcome.errors:
        return f"refused{leads}"
    return f"valid{leads}" if dry_run else f"unchanged{leads}: another replica has refused it"


@app.command(cls=Command)
@takes_flags
def convert(source: ConfigSource, file: File = None, server: Server = "") -> None:
    """Convert an older file to a v1 KubeSchedulerConfiguration.

    The file is a Policy, or of v1beta2 or v1beta3. Reports every part that is wrong or has no
    equivalent. A v1 file is printed as it is.
    """
    source = replace(source, config=file, server=server)
    _, document = _read_given(source)
    document = dict(converted(document).document)
    print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), end="")


def _read_given(source: ConfigSource) -> tuple[SchedulerConfiguration, dict[str, Any]]:
    if not source.given:
        fail("no configuration: give a FILE or a Policy", USAGE)
    return read_source(source, FAILED)
