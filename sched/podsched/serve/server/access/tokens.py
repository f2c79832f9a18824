"""Authenticates bearer tokens by a file with their hashes, from which tokens cannot be recovered.

    # sha256:HASH,USER,GROUPS,EXPIRES      (sched auth token writes such lines)
    sha256:9f86d0...,alice,"submitters,staff",2027-01-01T00:00:00Z

As Kubernetes' static token file, except for the hash and the optional expiry time. A fast hash is
sufficient, because tokens are 32 random bytes. The file is reloaded when it changes; if the new
content is invalid, this is logged and the previous tokens stay in use.
"""

from __future__ import annotations

import csv
import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from podsched.lib.changing_file import MAX_BYTES, ChangingFile
from podsched.lib.files import read_file
from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, Identity, expiry_of
from podsched.serve.server.access.settings import AccessError
from podsched.telemetry.logs import get_logger

_log = get_logger("apiserver")
_PREFIX = "sha256:"
_BYTES = 32


class TokenFileError(AccessError):
    """An invalid token file; the message names the file and the line."""


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(_BYTES)


def hash_of(token: str) -> str:
    """Return the hash of a token in the form that the file has."""
    return _PREFIX + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def append(path: Path, token: str, user: str, groups: Sequence[str], expires: datetime) -> None:
    """Append a token's line to a file, which is created if needed.

    Raises TokenFileError for names that a line cannot represent and for an invalid file, OSError.
    """
    for name in (user, *groups):
        if not name.strip() or not name.isprintable() or set(name) & set(',"') or name[0] == "#":
            raise TokenFileError(f'"{name}": no name for a token file')
    stamp = expires.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = f'{hash_of(token)},{user},"{",".join(groups)}",{stamp}\n'
    before = read_file(path, MAX_BYTES) if path.exists() else b""
    parse(before, str(path))
    if before and not before.endswith(b"\n"):
        line = "\n" + line
    # Readable only by its owner: the hashes are not secret, but the users may be.
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
        file.write(line.encode())


def parse(content: bytes, path: str) -> Mapping[str, Identity]:
    """Parse a file into identities by the hashes of their tokens. Raises TokenFileError."""
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError:
        raise TokenFileError(f"{path}: not a text file") from None
    found: dict[str, Identity] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            hashed, identity = _entry(line, f"{path}:{number}")
            if hashed in found:
                raise TokenFileError(f"{path}:{number}: there is a line for this token already")
            found[hashed] = identity
    return found


def _entry(line: str, place: str) -> tuple[str, Identity]:
    fields = [field.strip() for field in next(csv.reader([line]))]
    hashed, user, groups, expires = (*fields, "", "", "", "")[:4]
    digits = hashed.removeprefix(_PREFIX)
    if not hashed.startswith(_PREFIX) or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        # The field may be a token in clear text, so the message does not repeat it.
        raise TokenFileError(f"{place}: a line begins with {_PREFIX} and 64 hexadecimal digits")
    if not user:
        raise TokenFileError(f"{place}: the second field, the user, is empty")
    if len(fields) > 4:
        raise TokenFileError(f"{place}: more than 4 fields; put several groups into quotes")
    try:
        ends = expiry_of(expires)
    except ValueError:
        why = f"{expires!r} is not a time such as 2027-01-01T00:00:00Z"
        raise TokenFileError(f"{place}: {why}") from None
    names = frozenset(name.strip() for name in groups.split(",") if name.strip())
    return hashed, Identity(user, names | {AUTHENTICATED}, Authentication.TOKEN, ends)


class TokenFile:
    """Authenticates the tokens in a file. Raises TokenFileError, OSError."""

    def __init__(self, path: str) -> None:
        self._file = ChangingFile(path)
        self._identities = parse(self._file.content, path)

    def identity_of(self, token: str) -> Identity | None:
        """Return the identity of a token; None if the file does not have it."""
        if self._file.changed():
            try:
                self._identities = parse(self._file.content, self._file.path)
                _log.info("Token file loaded", tokens=len(self._identities))
            except TokenFileError as error:
                _log.warning("Keeping the tokens in use", error=str(error))
        return self._identities.get(hash_of(token))
