"""JSON Web Tokens of an issuer, and what they may not be."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest

from podsched.serve.server.access.identity import AUTHENTICATED, Authentication, TokenRejected
from podsched.serve.server.access.jwt import JwksError, JwtVerifier, keys_of
from podsched.serve.server.access.settings import JwtSettings
from support.issuer import AUDIENCE, ISSUER, Issuer, rsa_token, shared_secret_token

GOOD = Issuer()


def verifier(tmp_path: Path, **settings: str) -> JwtVerifier:
    file = GOOD.write(tmp_path / "jwks.json")
    return JwtVerifier(JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks=str(file), **settings))


def test_a_good_token_names_user_groups_and_expiry(tmp_path: Path) -> None:
    expires = int(time.time()) + 60
    token = GOOD.token("alice", groups=["staff"], exp=expires)
    found = verifier(tmp_path).identity_of(token)
    assert (found.user, found.groups) == ("alice", {"staff", AUTHENTICATED})
    assert (found.how, found.expires) == (Authentication.JWT, expires)


def test_a_token_is_checked_once(tmp_path: Path) -> None:
    tokens, token = verifier(tmp_path), GOOD.token()
    assert tokens.identity_of(token) is tokens.identity_of(token)


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ({"exp": time.time() - 60}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": 10**4000}, '"exp" is not a time'),
        ({"sub": "\ud800"}, "not Unicode text"),
        ({"groups": ["a", "\udfff"]}, "not Unicode text"),
        # A day: the tests are collected long before they run.
        ({"nbf": time.time() + 86_400}, "not yet valid"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "others"}, "[Aa]udience"),
        ({"aud": None}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, '"sub" is not a name'),
        ({"groups": [1]}, '"groups" is not a list of names'),
        ({"groups": {"a": 1}}, '"groups" is not a list of names'),
        ({"groups": [str(n) for n in range(1100)]}, "longer than|more than 1000 groups"),
        ({"sub": "system:kube-scheduler"}, 'may claim the name "system:kube-scheduler"'),
        ({"groups": ["system:masters"]}, 'may claim the name "system:masters"'),
    ],
)
def test_a_token_that_claims_anything_else_is_rejected(
    tmp_path: Path, claims: dict[str, Any], says: str
) -> None:
    with pytest.raises(TokenRejected, match=says):
        verifier(tmp_path).identity_of(GOOD.token(**claims))


@pytest.mark.parametrize("header", ["[" * 6000, "1" * 6000, "{", '"a"'])
def test_a_header_that_cannot_be_read_is_rejected(tmp_path: Path, header: str) -> None:
    encoded = base64.urlsafe_b64encode(header.encode()).decode().rstrip("=")
    with pytest.raises(TokenRejected):
        verifier(tmp_path).identity_of(f"{encoded}.e30.AA")


def test_a_service_accounts_token_is_accepted(tmp_path: Path) -> None:
    name = "system:serviceaccount:ci:builder"
    assert verifier(tmp_path).identity_of(GOOD.token(name)).user == name


def test_other_claims_may_hold_the_names(tmp_path: Path) -> None:
    tokens = verifier(tmp_path, user_claim="email", groups_claim="roles")
    found = tokens.identity_of(GOOD.token(email="a@example.com", roles="staff"))
    assert (found.user, found.groups) == ("a@example.com", {"staff", AUTHENTICATED})


def unsigned() -> str:
    parts = ({"alg": "none"}, {"iss": ISSUER, "aud": AUDIENCE, "sub": "e", "exp": 2**40})
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
    return ".".join([*encoded, ""])


@pytest.mark.parametrize(
    "token",
    [
        Issuer().token(),
        rsa_token("k1"),
        shared_secret_token("k1", json.dumps(GOOD.jwk()).encode()),
        unsigned(),
        GOOD.token(kid="other"),
        GOOD.token()[:-4] + "AAAA",
        "rubbish",
        "a.b.c",
        "\u00e9.\u00e9.\u00e9",
        "x" * 9000,
    ],
)
def test_a_token_that_the_issuer_has_not_signed_is_rejected(tmp_path: Path, token: str) -> None:
    with pytest.raises(TokenRejected) as caught:
        verifier(tmp_path).identity_of(token)
    assert token not in str(caught.value)


def test_tokens_are_worth_nothing_once_their_key_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, token, new = verifier(tmp_path), GOOD.token(), Issuer("k2")
    tokens.identity_of(token)
    new.write(tmp_path / "jwks.json")
    monkeypatch.setattr(tokens._file, "_checked_at", -10.0)
    with pytest.raises(TokenRejected, match="not among the issuer's"):
        tokens.identity_of(token)
    tokens.identity_of(new.token())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b'{"keys": 1}',
        b'{"keys": [1]}',
        b'{"keys": []}',
        b'{"keys": [{"kty": "RSA"}]}',
        b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_set_of_public_keys_is_an_error(content: bytes) -> None:
    with pytest.raises(JwksError, match=r"jwks\.json"):
        keys_of(content, "jwks.json")
