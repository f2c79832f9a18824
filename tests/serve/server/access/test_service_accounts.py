"""Tokens of ServiceAccounts: what they say, and when they are no longer accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jwt
import pytest

from podsched.api.objects import AnyObject, Node, Pod, Secret, ServiceAccount, timestamp
from podsched.serve.server.access.identity import TokenRejected
from podsched.serve.server.access.service_accounts import Bound, ServiceAccountTokens
from podsched.serve.server.watchcache import WatchCache
from support.service_accounts import account_settings, feed, gone

NOW = 1_700_000_000.0
ISSUER = "https://kubernetes.default.svc.cluster.local"


class Tokens:
    """Tokens at a time that the test sets, of the account default/builder with a pod on n1."""

    def __init__(self, directory: Path) -> None:
        self.now = NOW
        self.cache = WatchCache(max_events=100, max_bytes=1 << 20)
        self.issued = ServiceAccountTokens(
            account_settings(directory), self.cache, lambda: self.now
        )
        self.account = ServiceAccount(metadata=named("builder", "account-uid"))
        self.pod = Pod(metadata=named("worker", "pod-uid"))
        for item in (self.account, self.pod):
            feed(self.cache, item)

    def token(self, *bound: Bound, seconds: int = 3600, audience: str = ISSUER) -> str:
        return self.issued.issue(self.account, [audience], seconds, *bound)

    def of_pod(self) -> str:
        return self.token(Bound("pod", "worker", "pod-uid"), Bound("node", "n1", "node-uid"))


def named(name: str, uid: str) -> dict[str, str]:
    return {"namespace": "default", "name": name, "uid": uid}


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


def test_a_token_says_what_kubernetes_tokens_say(tokens: Tokens) -> None:
    claims = jwt.decode(tokens.of_pod(), options={"verify_signature": False})
    assert len(claims.pop("jti")) == 36
    assert claims == {
        "aud": [ISSUER],
        "exp": NOW + 3600,
        "iat": NOW,
        "iss": ISSUER,
        "kubernetes.io": {
            "namespace": "default",
            "node": {"name": "n1", "uid": "node-uid"},
            "pod": {"name": "worker", "uid": "pod-uid"},
            "serviceaccount": {"name": "builder", "uid": "account-uid"},
        },
        "nbf": NOW,
        "sub": "system:serviceaccount:default:builder",
    }


def test_its_user_is_the_account_and_its_extra_names_the_pod(tokens: Tokens) -> None:
    found = tokens.issued.identity_of(tokens.of_pod())
    assert (found.user, found.uid) == ("system:serviceaccount:default:builder", "account-uid")
    assert found.groups == {
        "system:serviceaccounts",
        "system:serviceaccounts:default",
        "system:authenticated",
    }
    extra = dict(found.extra)
    assert extra["authentication.kubernetes.io/pod-name"] == "worker"
    assert extra["authentication.kubernetes.io/node-name"] == "n1"
    assert extra["authentication.kubernetes.io/credential-id"].startswith("JTI=")


def test_a_token_ends_when_its_request_said(tokens: Tokens) -> None:
    token = tokens.token(seconds=600)
    tokens.now = NOW + 599
    assert tokens.issued.identity_of(token).expires == NOW + 600
    tokens.now = NOW + 600
    with pytest.raises(TokenRejected, match="expired"):
        tokens.issued.identity_of(token)


def test_a_token_for_others_is_refused_here_and_accepted_for_them(tokens: Tokens) -> None:
    token = tokens.token(audience="vault")
    with pytest.raises(TokenRejected, match="audiences"):
        tokens.issued.identity_of(token)
    assert tokens.issued.identity_of(token, ["vault"]).uid == "account-uid"


def _remove_pod(tokens: Tokens) -> None:
    gone(tokens.cache, tokens.pod)


def _replace_pod(tokens: Tokens) -> None:
    feed(tokens.cache, Pod(metadata=named("worker", "another-uid")))


def _remove_account(tokens: Tokens) -> None:
    gone(tokens.cache, tokens.account)


def _replace_account(tokens: Tokens) -> None:
    feed(tokens.cache, ServiceAccount(metadata=named("builder", "another-uid")))


def _delete_pod_long_ago(tokens: Tokens) -> None:
    pod = Pod(metadata=named("worker", "pod-uid"))
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(NOW - 61))
    feed(tokens.cache, pod)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_remove_pod, "invalidated"),
        (_replace_pod, "invalidated"),
        (_delete_pod_long_ago, "invalidated"),
        (_remove_account, "does not exist"),
        (_replace_account, "replaced"),
    ],
)
def test_a_token_is_refused_once_what_it_is_bound_to_is_gone(
    tokens: Tokens, change: Callable[[Tokens], None], says: str
) -> None:
    token = tokens.of_pod()
    tokens.issued.identity_of(token)
    change(tokens)
    with pytest.raises(TokenRejected, match=says):
        tokens.issued.identity_of(token)


def test_a_pod_that_is_just_being_deleted_may_still_use_its_token(tokens: Tokens) -> None:
    pod = Pod(metadata=named("worker", "pod-uid"))
    pod.metadata.deletion_timestamp.CopyFrom(timestamp(NOW - 30))
    feed(tokens.cache, pod)
    assert tokens.issued.identity_of(tokens.of_pod()).uid == "account-uid"


@pytest.mark.parametrize(
    "item",
    [Secret(metadata=named("s", "s-uid")), Node(metadata={"name": "s", "uid": "s-uid"})],
)
def test_a_token_can_be_bound_to_a_secret_or_a_node(tokens: Tokens, item: AnyObject) -> None:
    token = tokens.token(Bound(type(item).__name__.lower(), "s", "s-uid"))
    with pytest.raises(TokenRejected, match="invalidated"):
        tokens.issued.identity_of(token)
    feed(tokens.cache, item)
    assert tokens.issued.identity_of(token).uid == "account-uid"


def test_a_token_of_another_key_is_refused(tokens: Tokens, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Tokens(tmp_path / "other")
    assert tokens.issued.is_issuer_of(other.token())
    with pytest.raises(TokenRejected, match="not among the server's"):
        tokens.issued.identity_of(other.token())


def test_a_server_that_knows_the_other_key_accepts_its_tokens(
    tokens: Tokens, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    keys = (str(tmp_path / "sa.key"),)
    settings = account_settings(tmp_path / "new", verifying_keys=keys)
    rotated = ServiceAccountTokens(settings, tokens.cache, lambda: NOW)
    assert rotated.identity_of(tokens.token()).uid == "account-uid"
    assert len(rotated.keys.jwks()["keys"]) == 2


def test_a_signed_token_without_the_claims_is_refused(tokens: Tokens) -> None:
    for claims in ({"iss": ISSUER}, {"iss": ISSUER, "exp": NOW, "kubernetes.io": []}):
        with pytest.raises(TokenRejected, match="not a token of a service account"):
            tokens.issued.identity_of(tokens.issued.keys.signed(dict(claims)))


def test_a_token_of_another_issuer_is_left_to_others(tokens: Tokens) -> None:
    foreign = jwt.encode({"iss": "https://other"}, "secret" * 8, algorithm="HS256")
    assert not tokens.issued.is_issuer_of(foreign)
    assert not tokens.issued.is_issuer_of("no.token." + "x" * 20_000)
    assert not tokens.issued.is_issuer_of("a.b.c")
