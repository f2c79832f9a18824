"""``sched auth``, and the options that say whose tokens an API server accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.cli import auth
from podsched.serve.server.access.tokens import TokenFile
from podsched.v1.api_pb2 import SelfSubjectReviewResponse
from support.commands import Commands


def test_a_token_is_printed_once_and_its_hash_is_stored(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    arguments = ("alice", f"--file={file}", "--group=staff", "--group=submitters", "--days=7")
    token = Commands().ok("auth", "token", *arguments).strip()
    assert token not in file.read_text()
    found = TokenFile(str(file)).identity_of(token)
    assert found is not None
    assert found.user == "alice"
    assert {"staff", "submitters"} < found.groups


def test_a_name_that_the_file_cannot_hold_is_a_usage_error(tmp_path: Path) -> None:
    done = Commands()("auth", "token", "a,b", f"--file={tmp_path / 'tokens'}")
    assert done.code == 2
    assert '"a,b": no name for a token file' in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("can-i", "get"), "VERB and KIND are missing (or use --list)"),
        (("can-i", "get", "pods", "--list"), "--list cannot be combined with VERB and KIND"),
        (("can-i", "get", "pods", "-n", ""), '--namespace: "" is not the name of a namespace'),
    ],
)
def test_a_question_that_is_none_is_a_usage_error(arguments: tuple[str, ...], says: str) -> None:
    done = Commands()("auth", *arguments)
    assert done.code == 2
    assert says in done.err


def test_a_token_of_an_issuer_that_counts_in_milliseconds_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = SelfSubjectReviewResponse(username="alice", expires=1.8e12)
    monkeypatch.setattr(auth, "_ask", lambda *_: found)
    assert Commands().ok("auth", "whoami").endswith(" 9999-12-31 23:59 UTC\n")


TLS = ("--tls-cert=FILE", "--tls-key=FILE", "--tls-client-ca=FILE")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--token-file=nowhere",), "--token-file: nowhere: no such file"),
        (("--jwt-issuer=i", "--jwt-audience=a"), "must be used together"),
        (
            ("--jwt-issuer=i", "--jwt-audience=a", "--jwt-jwks=nowhere"),
            "--jwt-jwks: nowhere: no such file",
        ),
        (
            ("--jwt-issuer=i", "--jwt-audience=a", "--jwt-jwks=http://issuer.example/keys"),
            "use https",
        ),
        (
            ("--token-file=FILE", "--listen=0.0.0.0:7443", "--insecure-listen"),
            "tokens would be sent unencrypted",
        ),
        (
            (*TLS, "--token-file=FILE"),
            "with --tls-client-ca, --listen requires client certificates",
        ),
        (
            ("--token-listen=127.0.0.1:1",),
            "--token-listen needs --tls-client-ca, and --token-file or --jwt-issuer",
        ),
        ((*TLS, "--token-listen=127.0.0.1:1"), "--token-listen needs --tls-client-ca"),
        (
            (*TLS, "--token-file=FILE", "--token-listen=nowhere"),
            '--token-listen: "nowhere" is not HOST:PORT',
        ),
    ],
)
def test_token_options_that_do_not_fit_together_are_usage_errors(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (file := tmp_path / "file").touch()
    done = Commands()("apiserver", *(a.replace("FILE", str(file)) for a in arguments))
    assert done.code == 2
    [line] = done.errors
    assert says in line
