"""Tokens with which a kubelet requests its first certificate."""

from __future__ import annotations

import base64
import math

import pytest

from podsched.api.objects import Secret
from podsched.serve.server.access.authentication import CallAuthenticator
from podsched.serve.server.access.bootstrap_tokens import BootstrapTokens
from podsched.serve.server.watchcache import WatchCache
from support.service_accounts import feed

NOW = 1_700_000_000.0
TOKEN = "abcdef.0123456789abcdef"
DATA = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "expiration": "2023-11-15T00:00:00Z",
    "auth-extra-groups": "system:bootstrappers:lab",
}


def tokens(type_: str = "bootstrap.kubernetes.io/token", **changes: str) -> BootstrapTokens:
    cache = WatchCache(max_events=10, max_bytes=1 << 20)
    secret = Secret(type=type_)
    secret.metadata.name, secret.metadata.namespace = "bootstrap-token-abcdef", "kube-system"
    data = DATA | {key.replace("_", "-"): value for key, value in changes.items()}
    for key, value in data.items():
        secret.data[key] = base64.b64encode(value.encode()).decode()
    feed(cache, secret)
    return BootstrapTokens(cache, lambda: NOW)


def test_its_user_is_named_after_its_id() -> None:
    found = tokens().identity_of(TOKEN)
    assert found is not None
    assert found.user == "system:bootstrap:abcdef"
    assert found.groups == {
        "system:bootstrappers",
        "system:bootstrappers:lab",
        "system:authenticated",
    }
    assert found.expires == 1_700_006_400.0


def test_a_token_without_a_time_of_expiry_lasts() -> None:
    found = tokens(expiration="").identity_of(TOKEN)
    assert found is not None and found.expires == math.inf


@pytest.mark.parametrize(
    "changes",
    [
        {"type_": "Opaque"},
        {"token_id": "ghijkl"},
        {"token_secret": "0123456789abcdeg"},
        {"token_secret": ""},
        {"usage_bootstrap_authentication": "false"},
        {"expiration": "2023-11-14T00:00:00Z"},
        {"expiration": "tomorrow"},
        {"auth_extra_groups": "system:masters"},
    ],
)
def test_a_token_that_is_not_exactly_right_is_refused(changes: dict[str, str]) -> None:
    assert tokens(**changes).identity_of(TOKEN) is None


@pytest.mark.parametrize("token", ["", "abcdef", "abcdef.", "ABCDEF.0123456789abcdef", "a" * 5000])
def test_what_has_not_the_form_is_refused(token: str) -> None:
    assert tokens().identity_of(token) is None


def test_a_bootstrap_token_is_a_bearer_token() -> None:
    accepted = CallAuthenticator(bootstrap=tokens(expiration=""))
    assert accepted.of_token(TOKEN).user == "system:bootstrap:abcdef"
