"""Where the output of commands goes, and what happens when it cannot go there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.commands import Commands

SCHED = f"{sys.executable} -m podsched"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    line = command.replace("sched", SCHED)
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("sched config default > /dev/full", "error: No space left on device"),
        ("sched --help > /dev/full", "error: No space left on device"),
        ("sched config default >&-", "error: standard output is closed"),
        (
            "sched config check /dev/zero",
            "error: /dev/zero: too large for a configuration, more than 1 MiB",
        ),
    ],
)
def test_output_that_cannot_be_written_is_one_line_and_exit_code_1_or_2(
    command: str, said: str
) -> None:
    done = shell(command)
    assert (done.stderr.splitlines(), done.returncode in (1, 2)) == ([said], True)


@pytest.mark.integration
def test_a_closed_standard_error_is_no_reason_to_write_errors_elsewhere() -> None:
    done = shell("sched get pods --server nowhere 2>&-")
    assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.integration
def test_a_reader_that_goes_is_no_error() -> None:
    done = shell("sched config default | head -1 > /dev/null")
    assert (done.stderr, done.returncode) == ("", 0)


def test_an_argument_that_is_not_utf_8_is_a_usage_error() -> None:
    done = Commands("127.0.0.1:1")("get", "pod", "a\udcff")
    assert (done.code, done.err) == (2, 'error: "a\\udcff" is not UTF-8 text\n')


@pytest.mark.parametrize("command", [("apply",), ("config", "apply")])
def test_standard_input_that_is_not_utf_8_is_a_usage_error(command: tuple[str, ...]) -> None:
    done = Commands("127.0.0.1:1")(*command, "-f", "-", stdin="a\udcff")
    assert (done.code, done.err) == (2, "error: standard input: not UTF-8 text (byte 2)\n")


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (",,,", 'error: --server: ",,," contains no HOST:PORT'),
        (":99999", 'error: --server: ":99999" is not HOST:PORT'),
        ("x:99999", 'error: --server: "x:99999" is not HOST:PORT'),
        ("x:0", 'error: --server: "x:0" is not HOST:PORT'),
        ("x:\u00b2", 'error: --server: "x:\u00b2" is not HOST:PORT'),
        ("\x1b[2J", 'error: --server: "\\x1b[2J" is not HOST:PORT'),
    ],
)
def test_a_server_that_is_no_address_is_a_usage_error(server: str, said: str) -> None:
    done = Commands()("get", "pods", "--server", server)
    assert (done.errors, done.code) == ([said], 2)
