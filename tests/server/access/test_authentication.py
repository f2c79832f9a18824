"""From a connection's certificate to a user with groups."""

from __future__ import annotations

import pytest

from podsched.lib.certificates import Request, certify, new_authority
from podsched.server.access.authentication import by_certificate, nobody_is_asked
from podsched.server.access.identity import AUTHENTICATED, MASTERS, Authentication
from podsched.server.errors import ApiError


class Connection:
    """A gRPC context of a connection with this certificate."""

    def __init__(self, pem: bytes | None) -> None:
        self._pem = pem

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


def test_an_identity_expires_with_its_certificate() -> None:
    authority = new_authority("test ca", days=1)
    pair = certify(authority, Request("alice"), days=1)
    identity = by_certificate(Connection(pair.certificate_pem))
    assert identity.expires == pair.certificate.not_valid_after_utc.timestamp()


def test_a_connection_without_a_certificate_is_refused() -> None:
    with pytest.raises(ApiError, match="demands a client certificate"):
        by_certificate(Connection(None))


def test_where_nobody_is_asked_everyone_is_a_master() -> None:
    assert MASTERS in nobody_is_asked(Connection(None)).groups
