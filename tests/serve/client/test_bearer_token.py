"""The token that a client shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.lib.certificate_error import CertificateError
from podsched.serve.client.bearer_token import BearerToken, check_in_clear
from podsched.serve.client.channels import Channels, ClientOptions


def test_a_token_goes_with_every_call(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("abc.def-_~+/==\n")
    channels = Channels("127.0.0.1:1", ClientOptions(token_file=str(file)))
    assert channels.credentials() == (("authorization", "Bearer abc.def-_~+/=="),)
    assert Channels("127.0.0.1:1", ClientOptions()).credentials() == ()


def test_a_new_token_is_used_and_one_that_is_none_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    token = BearerToken(str(file))
    for content, shown in (("another", "another"), ("", "another")):
        file.write_text(content)
        monkeypatch.setattr(token._file, "_checked_at", -10.0)
        assert token.latest() == shown


@pytest.mark.parametrize("content", [b"", b"two words", b"\xc3\xa9", b"a\nb", b"x" * 10_000])
def test_what_is_no_token_is_an_error_that_does_not_show_it(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(CertificateError, match="contains no bearer token") as caught:
        BearerToken(str(file))
    assert "words" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="nothing: No such file"):
        BearerToken(str(tmp_path / "nothing"))


def test_a_file_that_is_too_large_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"x" * (5 << 20))
    with pytest.raises(CertificateError, match="token: more than 4 MiB"):
        BearerToken(str(file))


@pytest.mark.parametrize("endpoint", ["127.0.0.1:7443", "localhost:7443", "[::1]:7443"])
def test_a_token_is_sent_to_this_machine_in_clear(endpoint: str) -> None:
    check_in_clear(endpoint)


def test_a_token_leaves_this_machine_only_with_tls(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    options = ClientOptions(token_file=str(file))
    with pytest.raises(CertificateError, match=r"api:7443: a token is sent .* only with TLS"):
        Channels("127.0.0.1:7443,api:7443", options)
