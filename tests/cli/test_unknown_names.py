"""A name that there is not: who has it, or what was meant; and addresses of another kind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import typer

from podsched.cli.client import with_client
from podsched.lib.run_directory import RunDirectory
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Invalid, OutcomeUnknown, Unavailable
from support.commands import Commands

#: The begin of what gRPC says when TLS cannot be agreed on; "OK" stands at the end.
HANDSHAKE = "failed to connect to all addresses; last error: UNKNOWN: Tls handshake failed: error:"


@pytest.fixture(autouse=True)
def nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("name", ["scale", "edit", "rollout", "api-resources", "patch"])
def test_kubectls_commands_are_pointed_to(sched: Commands, name: str) -> None:
    done = sched(name, "x")
    assert done.code == 2
    assert f"kubectl has it: KUBECONFIG=FILE kubectl {name}" in done.err


@pytest.mark.parametrize("name", ["logs", "exec"])
def test_it_is_said_that_no_containers_run(sched: Commands, name: str) -> None:
    done = sched(name, "web-0")
    assert done.code == 2
    assert "runs no containers; in a Kubernetes cluster" in done.err
    assert "KUBECONFIG" not in done.err, "podsched's API server has no kubelets to ask"


def test_the_kubeconfig_of_what_runs_is_named(sched: Commands, tmp_path: Path) -> None:
    run = RunDirectory("up", tmp_path)
    try:
        (run.path / "kubeconfig").write_text("")
        assert f"KUBECONFIG={run.path}/kubeconfig kubectl scale" in sched("scale").err
    finally:
        run.remove()
    assert "KUBECONFIG=FILE" in sched("scale").err


@pytest.mark.parametrize(("typed", "meant"), [("aply", "apply"), ("drian", "drain"), ("zzz", "")])
def test_a_slip_is_answered_with_what_was_meant(sched: Commands, typed: str, meant: str) -> None:
    done = sched(typed)
    assert done.code == 2
    assert f"No such command '{typed}'" in done.err
    assert (f"did you mean {meant}" in done.err) == bool(meant)


def test_a_kustomization_is_left_to_kubectl(sched: Commands) -> None:
    done = sched("apply", "-k", "dir")
    assert done.code == 2
    assert "kubectl kustomize DIR | sched apply -f -" in done.err


@pytest.mark.parametrize(
    ("server", "code", "hint"),
    [
        ("https://127.0.0.1:6443", 2, "is a URL; sched speaks gRPC"),
        ("127.0.0.1:6443", 3, "6443 is the port for kubectl"),
    ],
)
def test_an_address_for_kubectl_gets_a_hint(
    sched: Commands, impatient: None, server: str, code: int, hint: str
) -> None:
    done = sched("get", "pods", "--server", server)
    assert done.code == code
    assert hint in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "pod/web-0"), "cannot reach"),
        (("explain", "pod", "web-0"), "cannot reach"),
        (("top", "node", "--once"), "cannot reach"),
        (("top", "pod", "--once"), "cannot reach"),
        (("explain", "node/n"), "pods and pod groups can be explained, not nodes"),
        (("explain", "pod", "a", "b"), "give one pod at a time"),
        (("top", "nodess"), "'nodess' is none of nodes, pods, queues"),
    ],
)
def test_what_is_named_as_in_kubectl_is_understood(
    sched: Commands, impatient: None, arguments: tuple[str, ...], said: str
) -> None:
    done = sched(*arguments, "--server", "127.0.0.1:1")
    assert said in done.err


def test_the_option_for_the_server_takes_two_lines_of_a_help_text(
    sched: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = sched.ok("cordon", "--help").splitlines()
    at = next(i for i, line in enumerate(lines) if "--server" in line)
    rest = next(i for i, line in enumerate(lines[at + 1 :]) if line.lstrip().startswith("-"))
    assert 1 + rest <= 3, "with its environment variable on a line of its own"


@pytest.mark.parametrize(
    ("error", "code", "hint"),
    [
        (Invalid("Received http2 header with status: 404"), 1, "uses gRPC, not HTTP"),
        (OutcomeUnknown("Socket closed"), 3, "Socket closed; if it serves TLS, set SCHED_TLS_CA"),
        (
            Unavailable(f"{HANDSHAKE} CERTIFICATE_VERIFY_FAILED: unable to get local issuer: OK"),
            3,
            "unable to get local issuer; is SCHED_TLS_CA the CA certificate of this cluster?",
        ),
        (
            Unavailable(f"{HANDSHAKE} WRONG_VERSION_NUMBER: Invalid context: OK"),
            3,
            "it does not serve TLS; unset SCHED_TLS_CA",
        ),
        (Unavailable("Failed parsing HTTP/2 (an http1.x server)"), 3, "gRPC, not HTTP"),
        (
            OutcomeUnknown("the server did not answer in time: Deadline Exceeded; before that: x"),
            3,
            "the server did not answer in time: Deadline Exceeded; before that: x\n",
        ),
        (Unavailable("errors resolving h:1: [field: Domain name not found]"), 3, "found\n"),
    ],
)
def test_an_answer_of_another_protocol_gets_a_hint(
    sched: Commands,
    capsys: pytest.CaptureFixture[str],
    error: ClientError,
    code: int,
    hint: str,
) -> None:
    async def work(client: ApiClient) -> None:
        raise error

    with pytest.raises(typer.Exit) as ended:
        with_client("127.0.0.1:1", work)
    assert ended.value.exit_code == code
    assert hint in capsys.readouterr().err


def test_a_hint_that_ends_with_a_command_can_be_copied(sched: Commands) -> None:
    assert "  " not in sched("scale").err


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            ("get", "podz"),
            1,
            'the server doesn\'t have a resource type "podz": did you mean pods?',
        ),
        (
            ("describe", "node/n", "nods/m"),
            1,
            'resource type "nods": did you mean nodes or pods or csinodes?',
        ),
        (("delete", "podz", "web"), 1, 'resource type "podz": did you mean pods?'),
        (("explain", "podd", "web"), 2, 'resource type "podd": did you mean pods?'),
        (("get", "xyz"), 1, 'the server doesn\'t have a resource type "xyz"'),
        (
            ("bench", "SchedulingBasics"),
            2,
            'unknown workload "SchedulingBasics": did you mean SchedulingBasic or ',
        ),
        (("chaos", "--faults", "kill-leadr"), 2, 'there is no "kill-leadr": did you mean '),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_names_like_an_unknown_one_are_told(
    sched: Commands, command: tuple[str, ...], code: int, message: str
) -> None:
    done = sched(*command)
    [line] = done.errors
    assert done.code == code and message in line


def test_a_kind_in_other_letters_is_told(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("{apiVersion: v1, kind: pod, metadata: {name: web}}")
    done = sched("apply", "-f", str(file))
    assert done.code == 1 and 'there is no kind "pod": did you mean Pod?' in done.err
