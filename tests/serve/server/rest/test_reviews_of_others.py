"""Reviews of tokens and of other users' rights, as kubelets ask for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.access_world import binding_of
from support.api_world import World
from support.kube_client import KubeClient
from support.service_accounts import Accounts

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LOCAL = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@pytest.fixture
async def accounts(world: World, tmp_path: Path) -> Accounts:
    found = Accounts(world, tmp_path)
    await found.start()
    await world.core.creator.create(binding_of("system:auth-delegator", "kubelet"))
    await world.core.reflector.wait_until_fresh()
    return found


async def delegating(accounts: Accounts, path: str, spec: dict[str, Any]) -> Any:
    """The answer to a caller who may ask; the caller has a token of the account."""
    binding = binding_of(
        "system:auth-delegator", "system:serviceaccount:default:builder", name="ask"
    )
    await accounts.world.core.creator.create(binding)
    await accounts.world.core.reflector.wait_until_fresh()
    headers = {"authorization": f"Bearer {accounts.token()}"}
    return await accounts.authenticating().request("POST", path, {"spec": spec}, headers)


async def test_a_good_token_is_told_by_its_user(accounts: Accounts) -> None:
    answer = (await delegating(accounts, TOKENS, {"token": accounts.token()})).json
    status = answer["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == "system:serviceaccount:default:builder"
    assert status["user"]["uid"] == await accounts.uid("ServiceAccount", "builder")
    assert status["audiences"] == [ISSUER]
    assert "token" not in answer["spec"]


async def test_a_token_is_reviewed_for_the_audiences_that_the_caller_names(
    accounts: Accounts,
) -> None:
    token = accounts.token("vault", "other")
    asked = {"token": token, "audiences": ["vault", "none"]}
    status = (await delegating(accounts, TOKENS, asked)).json["status"]
    assert (status["authenticated"], status["audiences"]) == (True, ["vault"])
    headers = {"authorization": f"Bearer {accounts.token()}"}
    for audiences in ([], ["none"]):
        spec = {"token": token, "audiences": audiences}
        client = accounts.authenticating()
        refused = (await client.request("POST", TOKENS, {"spec": spec}, headers)).json["status"]
        assert "authenticated" not in refused and refused["error"]


async def test_a_bad_token_is_an_answer_and_not_a_failure(accounts: Accounts) -> None:
    answer = await delegating(accounts, TOKENS, {"token": "guessed"})
    assert answer.status == 201
    assert answer.json["status"] == {
        "user": {},
        "error": "the token is not known to this server",
    }


@pytest.mark.parametrize("path", [TOKENS, ACCESS, LOCAL])
async def test_reviews_of_others_need_a_right(accounts: Accounts, path: str) -> None:
    refused = await accounts.asking("alice").request("POST", path, {"spec": {}})
    assert refused.status == 403
    plural = path.rpartition("/")[2]
    assert f'User "alice" cannot create resource "{plural}"' in refused.json["message"]


async def allowed(client: KubeClient, spec: dict[str, Any], path: str = ACCESS) -> bool:
    answer = await client.request("POST", path, {"spec": spec})
    assert answer.status == 201, answer.json
    found: bool = answer.json["status"]["allowed"]
    return found


async def test_a_kubelet_learns_what_its_caller_may_do(accounts: Accounts) -> None:
    proxy = {"verb": "get", "resource": "nodes", "subresource": "proxy", "name": "n1"}
    kubelet = accounts.asking("kubelet")
    asked = {"resourceAttributes": proxy}
    assert await allowed(kubelet, {"user": "kube-apiserver-kubelet-client", **asked})
    assert await allowed(kubelet, {"user": "admin", "groups": ["system:masters"], **asked})
    assert not await allowed(kubelet, {"user": "alice", "groups": ["staff"], **asked})


async def test_a_review_of_a_node_knows_the_pods_bound_to_it(accounts: Accounts) -> None:
    account = {"verb": "get", "resource": "serviceaccounts", "namespace": "default"}
    asked = {"resourceAttributes": {**account, "name": "builder"}}
    await accounts.world.core.reflector.wait_until_fresh()
    worker = {"user": "system:node:worker-1", "groups": ["system:nodes"]}
    assert await allowed(accounts.asking("kubelet"), {**worker, **asked})


async def test_a_review_of_a_path_follows_the_roles(accounts: Accounts) -> None:
    def spec(group: str) -> dict[str, Any]:
        path = {"verb": "get", "path": "/openid/v1/jwks"}
        return {"user": "alice", "groups": [group], "nonResourceAttributes": path}

    assert not await allowed(accounts.asking("kubelet"), spec("staff"))
    assert await allowed(accounts.asking("kubelet"), spec("system:serviceaccounts"))


async def test_a_local_review_is_of_its_namespace(accounts: Accounts) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": "default"}
    spec = {"user": "alice", "resourceAttributes": attributes}
    assert not await allowed(accounts.asking("kubelet"), spec, LOCAL)
    spec = {"user": "alice", "resourceAttributes": {**attributes, "namespace": "other"}}
    refused = await accounts.asking("kubelet").request("POST", LOCAL, {"spec": spec})
    assert refused.status == 422


@pytest.mark.parametrize(
    ("path", "spec", "status"),
    [
        (TOKENS, {}, 422),
        (TOKENS, {"token": 1}, 422),
        (TOKENS, {"token": "a", "audiences": ["a"] * 65}, 400),
        (ACCESS, {}, 422),
        (ACCESS, {"user": "a", "groups": "b"}, 400),
        (ACCESS, {"user": "a" * 2000}, 400),
        (ACCESS, {"groups": ["a"] * 1001}, 400),
    ],
)
async def test_a_review_with_a_mistake_is_refused(
    accounts: Accounts, path: str, spec: dict[str, Any], status: int
) -> None:
    answer = await accounts.asking("kubelet").request("POST", path, {"spec": spec})
    assert answer.status == status


@pytest.mark.parametrize("unread", [2**64, json.loads("[" * 400 + "]" * 400)])
async def test_a_review_is_answered_with_what_is_not_read_of_it(
    accounts: Accounts, unread: Any
) -> None:
    spec = {"user": "a", "uid": unread}
    answer = await accounts.asking("kubelet").request("POST", ACCESS, {"spec": spec})
    assert (answer.status, answer.json["spec"]) == (201, spec)


async def test_who_has_a_token_learns_its_pod(accounts: Accounts) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"authorization": f"Bearer {accounts.token()}"}
    answer = (await accounts.authenticating().request("POST", path, {}, headers)).json
    extra = answer["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/credential-id"][0].startswith("JTI=")
