"""From a connection's certificate to a user with groups."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from ssl import DER_cert_to_PEM_cert

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusCode
from podsched.lib.certificates import Request, certify, new_authority
from podsched.serve.server.access.authentication import CallAuthenticator, no_authentication
from podsched.serve.server.access.identity import (
    AUTHENTICATED,
    MASTERS,
    SERVER,
    Authentication,
    TokenRejected,
    set_caller,
)
from podsched.serve.server.access.jwt import JwtVerifier
from podsched.serve.server.access.rights import WatchRight
from podsched.serve.server.access.settings import JwtSettings
from podsched.serve.server.access.tokens import TokenFile, append
from podsched.serve.server.errors import ApiError
from support.issuer import AUDIENCE, ISSUER, Issuer

by_certificate = CallAuthenticator(certificates=True)


class Connection:
    """A gRPC context of a connection with this certificate, and a call's metadata."""

    def __init__(self, pem: bytes | None, **metadata: str) -> None:
        self._pem = pem
        self._metadata = tuple(metadata.items())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def auth_context(self) -> dict[str, list[bytes]]:
        return {"x509_pem_cert": [self._pem]} if self._pem else {}


def connection_of(user: str, *groups: str) -> Connection:
    authority = new_authority("test ca", days=1)
    return Connection(certify(authority, Request(user, groups), days=1).certificate_pem)


def test_a_certificates_common_name_is_the_user_and_its_organizations_are_the_groups() -> None:
    identity = by_certificate(connection_of("system:node:n1", "system:nodes", "lab"))
    assert identity.user == "system:node:n1"
    assert identity.groups == {"system:nodes", "lab", AUTHENTICATED}
    assert identity.how is Authentication.CERTIFICATE


def test_a_certificate_whose_name_is_no_text_is_refused() -> None:
    """An authority may sign a common name that is a string of bits."""
    text, bits = b"\x0c\x05alice", b"\x03\x05\x00lice"
    pair = certify(new_authority("test ca", days=1), Request("alice"), days=1)
    der = pair.certificate.public_bytes(Encoding.DER).replace(text, bits)
    with pytest.raises(ApiError, match="its subject cannot be read"):
        by_certificate(Connection(DER_cert_to_PEM_cert(der).encode()))


def test_an_identity_expires_with_its_certificate() -> None:
    authority = new_authority("test ca", days=1)
    pair = certify(authority, Request("alice"), days=1)
    identity = by_certificate(Connection(pair.certificate_pem))
    assert identity.expires == pair.certificate.not_valid_after_utc.timestamp()


def test_a_connection_without_a_certificate_is_refused() -> None:
    with pytest.raises(ApiError, match="the call has no client certificate"):
        by_certificate(Connection(None))


def test_without_authentication_everyone_is_a_master() -> None:
    assert MASTERS in no_authentication(Connection(None)).groups


@pytest.fixture
def with_tokens(tmp_path: Path) -> CallAuthenticator:
    """Accepts certificates, alice's token and the issuer's."""
    tokens = tmp_path / "tokens"
    append(tokens, "alices", "alice", (), datetime(2100, 1, 1, tzinfo=UTC))
    jwks = str(ISSUED.write(tmp_path / "jwks"))
    return CallAuthenticator(
        certificates=True,
        tokens=TokenFile(str(tokens)),
        jwt=JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks=jwks)),
    )


ISSUED = Issuer()


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_token_in_the_file_or_of_the_issuer_names_the_user(
    with_tokens: CallAuthenticator, scheme: str
) -> None:
    for token, user in (("alices", "alice"), (ISSUED.token("bob"), "bob")):
        call = Connection(None, authorization=f"{scheme} {token}")
        assert with_tokens(call).user == user


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (None, "has no client certificate or bearer token"),
        ("", "has no client certificate or bearer token"),
        ("Basic YTpi", "has no client certificate or bearer token"),
        ("Bearer ", "has no client certificate or bearer token"),
        ("Bearer unknown", "the token is not accepted"),
    ],
)
def test_anonymous_calls_are_refused(
    with_tokens: CallAuthenticator, header: str | None, says: str
) -> None:
    call = Connection(None) if header is None else Connection(None, authorization=header)
    with pytest.raises(ApiError, match=says) as caught:
        with_tokens(call)
    assert caught.value.code is StatusCode.UNAUTHENTICATED
    assert "unknown" not in str(caught.value)


def test_a_connection_with_a_certificate_needs_no_token(with_tokens: CallAuthenticator) -> None:
    pem = certify(new_authority("ca", 1), Request("carol"), days=1).certificate_pem
    assert with_tokens(Connection(pem, authorization="Bearer alices")).user == "carol"


def test_certificates_count_only_where_they_are_verified(tmp_path: Path) -> None:
    pem = certify(new_authority("ca", 1), Request("carol"), days=1).certificate_pem
    tokens = tmp_path / "tokens"
    append(tokens, "alices", "alice", (), datetime(2100, 1, 1, tzinfo=UTC))
    authenticate = CallAuthenticator(tokens=TokenFile(str(tokens)))
    with pytest.raises(ApiError, match="has no bearer token"):
        authenticate(Connection(pem))


def test_a_token_that_has_expired_is_no_ones(tmp_path: Path) -> None:
    """Also for a TokenReview, by which kubelets and other servers accept callers."""
    tokens = tmp_path / "tokens"
    append(tokens, "alices", "alice", (), datetime(2020, 1, 1, tzinfo=UTC))
    authenticate = CallAuthenticator(tokens=TokenFile(str(tokens)))
    with pytest.raises(TokenRejected, match="has expired"):
        authenticate.of_token("alices")


@pytest.mark.parametrize("after", ["", "bob"], ids=["gone", "another's"])
def test_a_watch_ends_when_its_token_is_withdrawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """Nothing else ends a watch whose token does not expire."""
    file = tmp_path / "tokens"
    append(file, "alices", "alice", (), datetime(2100, 1, 1, tzinfo=UTC))
    tokens = TokenFile(str(file))
    authenticate = CallAuthenticator(tokens=tokens)
    set_caller(authenticate(Connection(None, authorization="Bearer alices")))
    try:
        watch = WatchRight([KINDS["Pod"]], "default")
    finally:
        set_caller(SERVER)
    watch.check()
    file.write_text(file.read_text().replace("alice", after) if after else "")
    monkeypatch.setattr(tokens._file, "_checked_at", -10.0)
    with pytest.raises(ApiError, match=r"not known|another identity") as caught:
        watch.check()
    assert caught.value.code is StatusCode.UNAUTHENTICATED
