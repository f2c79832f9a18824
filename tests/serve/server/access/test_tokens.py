"""Tokens in a file of hashes."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from podsched.lib.changing_file import MAX_BYTES
from podsched.lib.files import FileTooLarge
from podsched.serve.server.access import tokens
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication
from podsched.serve.server.access.tokens import TokenFile, TokenFileError, append, hash_of, parse

NEXT_YEAR = datetime(2100, 1, 1, tzinfo=UTC)


def test_a_token_that_was_added_is_its_users(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    append(file, "secret", "alice", ("staff", "submitters"), NEXT_YEAR)
    append(file, "other", "bob", (), NEXT_YEAR)
    found = TokenFile(str(file))
    alice = found.identity_of("secret")
    assert alice is not None
    assert (alice.user, alice.how) == ("alice", Authentication.TOKEN)
    assert alice.groups == {"staff", "submitters", AUTHENTICATED}
    assert alice.expires == NEXT_YEAR.timestamp()
    assert found.identity_of("Secret") is None
    assert found.identity_of("") is None


def test_the_file_does_not_hold_the_token_and_is_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    append(file, "secret", "alice", (), NEXT_YEAR)
    assert "secret" not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


def test_a_line_break_that_is_missing_is_put_in(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# people\n{hash_of('a')},alice")
    append(file, "b", "bob", (), NEXT_YEAR)
    assert {i.user for i in parse(file.read_bytes(), "f").values()} == {"alice", "bob"}


def test_no_token_is_added_to_a_file_that_is_too_large_or_endless(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch()
    os.truncate(file, MAX_BYTES + 1)
    with pytest.raises(FileTooLarge, match="more than 4 MiB"):
        append(file, "secret", "alice", (), NEXT_YEAR)


@pytest.mark.parametrize("name", ["", " ", "a,b", 'a"b', "a\nb", "#a"])
def test_names_that_a_line_cannot_hold_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TokenFileError, match="no name for a token file"):
        append(tmp_path / "tokens", "t", name, (), NEXT_YEAR)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("my-token,alice", "begins with sha256:"),
        (f"sha256:{'0' * 63},alice", "begins with sha256:"),
        (f"{hash_of('a')},", "the second field, the user, is empty"),
        (f"{hash_of('a')},alice,staff,admins,2100-01-01", "more than 4 fields"),
        (f"{hash_of('a')},alice,,tomorrow", "'tomorrow' is not a time"),
        (f"{hash_of('a')},alice\n{hash_of('a')},bob", "tokens:2: there is a line for this token"),
    ],
)
def test_a_bad_line_is_named_without_what_may_be_a_token(line: str, says: str) -> None:
    with pytest.raises(TokenFileError, match=says) as caught:
        parse(line.encode(), "tokens")
    assert "my-token" not in str(caught.value)


def test_a_file_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, now = tmp_path / "tokens", [0.0]
    append(file, "old", "alice", (), NEXT_YEAR)

    class Clocked(tokens.ChangingFile):
        def __init__(self, path: str) -> None:
            super().__init__(path, lambda: now[0])

    monkeypatch.setattr(tokens, "ChangingFile", Clocked)
    found = TokenFile(str(file))
    file.write_text(f"{hash_of('new')},alice\n")
    assert found.identity_of("old") is not None, "looked at once a second"
    now[0] += 2
    assert found.identity_of("old") is None
    assert found.identity_of("new") is not None
    file.write_text("rubbish")
    now[0] += 2
    assert found.identity_of("new") is not None, "what cannot be used is not"
    os.unlink(file)
    now[0] += 2
    assert found.identity_of("new") is not None
