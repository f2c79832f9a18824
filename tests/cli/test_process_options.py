"""Listeners that other machines can reach are secured, or allowed explicitly."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.cli import agent, apiserver, scheduler
from podsched.lib.network import free_port
from support.commands import Commands

OPEN = "0.0.0.0:8080"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the processes that were started, in place of the processes."""
    names: list[str] = []
    for module in (agent, apiserver, scheduler):
        monkeypatch.setattr(
            module, "run_or_fail", lambda _, options, *more: names.append(options.name)
        )
    return names


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, str]:
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).touch()
    return f"--tls-cert={tmp_path / 'tls.crt'}", f"--tls-key={tmp_path / 'tls.key'}"


@pytest.mark.parametrize("address", [OPEN, "[::]:7443", "10.0.0.1:7443", "api.example:7443"])
def test_an_api_server_without_tls_beyond_loopback_is_refused(
    started: list[str], address: str
) -> None:
    done = Commands()("apiserver", "--listen", address)
    assert (done.code, started) == (2, [])
    [line] = done.errors
    assert all(part in line for part in (f"--listen {address}", "--tls-cert", "--insecure-listen"))


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("apiserver", "--health-listen"),
        ("apiserver", "--web-listen"),
        ("scheduler", "--health-listen"),
        ("scheduler", "--web-listen"),
        ("scheduler", "--listen-peers"),
        ("agent", "--health-listen"),
    ],
)
def test_other_listeners_without_tls_beyond_loopback_are_refused(
    started: list[str], command: str, option: str
) -> None:
    done = Commands()(command, option, OPEN)
    assert (done.code, started) == (2, [])
    [line] = done.errors
    assert all(part in line for part in (f"{option} {OPEN}", "--tls-cert", "--insecure-listen"))


@pytest.mark.parametrize("address", ["replica-1:port", "replica-1:70000", ":7500"])
def test_an_address_for_peers_that_nothing_could_reach_is_refused(
    started: list[str], address: str
) -> None:
    done = Commands()("scheduler", "--advertise-peers", address)
    assert (done.code, started) == (2, [])
    assert done.errors == [f'error: --advertise-peers: "{address}" is not HOST:PORT']


@pytest.mark.parametrize("address", ["replica-1", "replica-1:7500", "fd00::5", "[fd00::5]:7500"])
def test_peers_may_be_told_a_host_with_or_without_a_port(started: list[str], address: str) -> None:
    Commands().ok("scheduler", "--advertise-peers", address)
    assert started == ["scheduler"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("apiserver", "--listen=127.0.0.2:1"),
        ("apiserver", "--listen=localhost:1"),
        ("apiserver", "--listen=[::1]:1", "--health-listen=localhost:1"),
        ("apiserver", f"--listen={OPEN}", f"--health-listen={OPEN}", "--insecure-listen"),
        ("scheduler", f"--health-listen={OPEN}", "--insecure-listen"),
        ("scheduler", f"--listen-peers={OPEN}", "--insecure-listen"),
        ("scheduler", f"--web-listen={OPEN}", "--insecure-listen"),
        ("agent", f"--health-listen={OPEN}", "--insecure-listen"),
    ],
    ids=" ".join,
)
def test_loopback_is_served_as_it_is_and_a_flag_allows_the_rest(
    started: list[str], arguments: tuple[str, ...]
) -> None:
    Commands().ok(*arguments)
    assert started == [arguments[0]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("apiserver", f"--listen={OPEN}", f"--health-listen={OPEN}", f"--web-listen={OPEN}"),
        ("scheduler", f"--listen-peers={OPEN}", f"--health-listen={OPEN}", f"--web-listen={OPEN}"),
        ("agent", f"--health-listen={OPEN}"),
    ],
    ids=" ".join,
)
def test_certificates_open_all_listeners(
    started: list[str], tls: tuple[str, str], arguments: tuple[str, ...]
) -> None:
    ca = () if arguments[0] == "apiserver" else (tls[0].replace("--tls-cert", "--tls-ca"),)
    Commands().ok(*arguments, *tls, *ca)
    assert started == [arguments[0]]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("apiserver", "--listen"),
        ("apiserver --workers 2", "--listen"),
        ("apiserver --listen 127.0.0.1:0", "--kube-listen"),
        ("apiserver --listen 127.0.0.1:0", "--health-listen"),
        ("apiserver --listen 127.0.0.1:0", "--web-listen"),
        ("apiserver --listen 127.0.0.1:0 --workers 2", "--web-listen"),
        ("scheduler", "--listen-peers"),
        ("scheduler", "--health-listen"),
        ("scheduler", "--web-listen"),
        ("agent", "--health-listen"),
    ],
)
def test_an_address_that_is_taken_is_one_line_with_its_option(
    taken: str, command: str, option: str
) -> None:
    done = Commands()(*command.split(), option, taken)
    why = "another process listens there: stop it, or choose another port"
    assert (done.code, done.err) == (1, f"error: {option} {taken}: cannot listen: {why}\n")


def test_the_port_of_https_that_is_taken_is_one_line_with_its_option(
    taken: str, tmp_path: Path
) -> None:
    host, _, port = taken.partition(":")
    done = Commands()(
        "scheduler", f"--cert-dir={tmp_path}", f"--bind-address={host}", f"--secure-port={port}"
    )
    [line] = done.errors
    assert (done.code, line[: line.rindex(":")]) == (
        1,
        f"error: --secure-port {taken}: cannot listen: another process listens there",
    )


def test_an_address_of_another_machine_is_told_from_one_that_is_taken() -> None:
    done = Commands()("apiserver", "--insecure-listen", "--listen", "192.0.2.1:7443")
    why = "this is not an address of this machine"
    assert done.err == f"error: --listen 192.0.2.1:7443: cannot listen: {why}\n"


def test_two_options_with_one_address_are_a_usage_error() -> None:
    address = f"127.0.0.1:{free_port()}"
    done = Commands()("apiserver", "--listen", address, "--web-listen", address)
    message = f"error: --web-listen {address}: --listen has this address: choose another port\n"
    assert (done.code, done.err) == (2, message)


@pytest.mark.parametrize("address", ["8080", ":8080", "127.0.0.1:99999", "127.0.0.1:\u00b2"])
def test_a_malformed_address_is_one_line(started: list[str], address: str) -> None:
    done = Commands()("agent", "--health-listen", address)
    assert (done.code, started) == (2, [])
    assert done.errors == [f'error: --health-listen: "{address}" is not HOST:PORT']
