"""The help texts at 80 columns."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from podsched.cli.help_texts import summary_of
from podsched.cli.main import COMMANDS as LAZY
from support.api_objects import pod
from support.command_client import CommandClient
from support.commands import Commands

COMMANDS = {name: lazy.load(name) for name, lazy in LAZY.items()}


@pytest.mark.parametrize("command", COMMANDS)
def test_names_of_options_are_not_cut_at_80_columns(
    sched: Commands, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = sched.ok(command, "--help")
    shown = set(said.replace(",", " ").split())
    options = {
        option
        for parameter in getattr(COMMANDS[command], "params", ())
        if parameter.param_type_name == "option" and not parameter.hidden
        for option in parameter.opts
    }
    assert options <= shown
    assert max(len(line) for line in said.splitlines()) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_text_shows_a_type_of_python(
    sched: Commands, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = getattr(COMMANDS[command], "commands", {})
    said = [sched.ok(command, *sub, "--help") for sub in [(), *((name,) for name in groups)]]
    assert re.findall(r"<(?:list|str|int|float|path)[^|>]*>|list\[", "".join(said)) == []


def test_options_and_commands_are_grouped(sched: Commands) -> None:
    titles = [line for line in sched.ok("--help").splitlines() if line.endswith(":")]
    assert titles == ["Options:", "On this machine:", "Objects:", "Scheduling:", "Processes:"]
    assert "\nObservability:\n" in sched.ok("scheduler", "--help")


def test_a_group_without_a_command_shows_its_help(sched: Commands) -> None:
    done = sched("config")
    assert done.code == 2
    assert done.errors[0].startswith("Usage: ")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_list_of_commands_has_the_summary_of_each(command: str) -> None:
    assert LAZY[command].summary == summary_of(COMMANDS[command])


def test_the_list_of_commands_imports_none_of_them() -> None:
    code = "import sys; sys.argv = ['sched', '--help']; from podsched.cli.main import app; "
    code += "app(standalone_mode=False); print(sorted({'grpc', 'ray', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_showing_objects_imports_neither_numpy_nor_ray_nor_what_logs_lines() -> None:
    code = "import sys, podsched.cli.get; "
    code += "print(sorted({'ray', 'numpy', 'structlog'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_word_of_a_help_text_is_broken_at_a_hyphen(
    sched: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for command in (("plan",), ("scheduler",), ("record",), ("config", "apply"), ("config",)):
        lines = sched.ok(*command, "--help").splitlines()
        assert [line for line in lines if re.search(r"\w-$", line)] == [], command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("drain", "n", "--dry-run"), "requires an argument: --dry-run <none|server>"),
        (("config", "check", "--server"), "requires an argument: -s, --server HOST:PORT[,...]"),
    ],
)
def test_an_option_without_its_value_tells_what_it_takes_and_where_to_read_on(
    sched: Commands, arguments: tuple[str, ...], says: str
) -> None:
    done = sched(*arguments)
    command = " ".join(word for word in arguments[:-1] if word != "n")
    assert (done.code, done.err) == (
        2,
        f"error: Option '{arguments[-1]}' {says} (see sched {command} --help)\n",
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("up", "--nodes", "x"), "Invalid value for '--nodes': must be a valid integer"),
        (
            ("bench", "--repeat", "0"),
            "Invalid value for '--repeat': must be greater than or equal to 1",
        ),
        (
            ("apply", "pod.yaml"),
            "Got unexpected extra argument(s) (pod.yaml): name files with -f",
        ),
        (("get", "pods", "--watch=x"), "Option '--watch' does not take a value"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_usage_error_is_in_plain_words(
    sched: Commands, command: tuple[str, ...], message: str
) -> None:
    done = sched(*command)
    assert (done.code, done.err) == (2, f"error: {message} (see sched {command[0]} --help)\n")


def test_a_short_option_may_have_an_equals_sign(sched: Commands, in_memory: CommandClient) -> None:
    in_memory.cluster.create(pod("web", "other"))
    assert sched.ok("get", "pods", "-n=other", "-o=name") == "pod/web\n"


def test_what_follows_two_hyphens_is_kept() -> None:
    words = ["web", "--", "image", "-o=x"]
    context = COMMANDS["run"].make_context("run", [*words])
    assert context.params["words"] == ["web", "image", "-o=x"]
