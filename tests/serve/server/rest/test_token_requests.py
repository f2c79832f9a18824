"""Tokens of ServiceAccounts over HTTP: requests for them, and callers who present them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jwt
import pytest

from podsched.v1.api_pb2 import DeleteRequest
from support.access_world import binding_of
from support.api_objects import pod
from support.api_world import World
from support.eventually import PATIENCE, eventually
from support.kube_client import KubeClient
from support.service_accounts import LONG, Accounts

PATH = "/api/v1/namespaces/default/serviceaccounts/builder/token"
ISSUER = "https://kubernetes.default.svc.cluster.local"


@pytest.fixture
async def accounts(world: World, tmp_path: Path) -> Accounts:
    found = Accounts(world, tmp_path)
    await found.start()
    return found


def asked(**spec: Any) -> dict[str, Any]:
    return {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec}


async def test_a_kubelets_request_gets_a_token_bound_to_the_pod(accounts: Accounts) -> None:
    body = asked(audiences=None, expirationSeconds=3607, boundObjectRef=await accounts.reference())
    answer = await accounts.admin.request("POST", PATH, body)
    assert answer.status == 201
    shown = answer.json
    assert shown["spec"] == {
        "audiences": [ISSUER],
        "expirationSeconds": 3607,
        "boundObjectRef": body["spec"]["boundObjectRef"],
    }
    assert shown["status"]["expirationTimestamp"] == "2023-11-14T23:13:27Z"
    claims = jwt.decode(shown["status"]["token"], options={"verify_signature": False})
    assert claims["kubernetes.io"]["pod"]["name"] == "web-1"
    assert claims["kubernetes.io"]["node"]["name"] == "worker-1"


async def test_a_callers_token_is_refused_once_its_pod_is_gone(accounts: Accounts) -> None:
    body = asked(boundObjectRef=await accounts.reference(), expirationSeconds=LONG)
    token = (await accounts.admin.request("POST", PATH, body)).json["status"]["token"]
    path = "/apis/authentication.k8s.io/v1"
    assert (await accounts.with_token(token, path)).status == 200
    request = DeleteRequest(kind="Pod", namespace="default", name="web-1", grace_period_seconds=0)
    await accounts.world.core.deleter.delete(request)
    await accounts.world.core.reflector.wait_until_fresh()
    refused = await accounts.with_token(token, path)
    assert (refused.status, refused.json["message"]) == (401, "Unauthorized")


async def test_a_watch_ends_once_the_pod_of_its_token_is_gone(accounts: Accounts) -> None:
    account = "system:serviceaccount:default:builder"
    await accounts.world.core.creator.create(binding_of("view", account, "default", "b"))
    await accounts.world.core.reflector.wait_until_fresh()
    body = asked(boundObjectRef=await accounts.reference(), expirationSeconds=LONG)
    token = (await accounts.admin.request("POST", PATH, body)).json["status"]["token"]
    path = "/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=60"
    watching = asyncio.create_task(accounts.with_token(token, path))
    watcher = accounts.world.core.watcher
    await eventually("the watch", lambda: watcher.watching, 1)
    request = DeleteRequest(kind="Pod", namespace="default", name="web-1", grace_period_seconds=0)
    await accounts.world.core.deleter.delete(request)
    async with asyncio.timeout(PATIENCE):
        ended = (await watching).events[-1]
    assert (ended["type"], ended["object"]["code"]) == ("ERROR", 401)


async def test_an_accounts_rights_are_those_of_its_roles(accounts: Accounts) -> None:
    body = asked(expirationSeconds=LONG)
    token = (await accounts.admin.request("POST", PATH, body)).json["status"]["token"]
    path = "/api/v1/namespaces/default/pods"
    refused = await accounts.with_token(token, path)
    assert refused.json["message"].startswith(
        'pods is forbidden: User "system:serviceaccount:default:builder" cannot list'
    )
    binding = binding_of("view", "system:serviceaccount:default:builder", "default", "b")
    await accounts.world.core.creator.create(binding)
    await accounts.world.core.reflector.wait_until_fresh()
    assert (await accounts.with_token(token, path)).status == 200


@pytest.mark.parametrize(
    ("spec", "status", "says"),
    [
        ({"expirationSeconds": 599}, 422, "may not specify a duration less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, 422, "may not specify a duration larger than 2^32"),
        ({"expirationSeconds": "an hour"}, 400, "whole number"),
        ({"audiences": "me"}, 400, "list of strings"),
        ({"audiences": ["a" * 2000]}, 400, "at most 64 of 1024 characters"),
        ({"audiences": ["a"] * 65}, 400, "at most 64 of 1024 characters"),
        ({"boundObjectRef": {"kind": "Job", "name": "a"}}, 400, "cannot bind token to object"),
        ({"boundObjectRef": {"kind": "Pod", "name": "none"}}, 404, 'pods "none" not found'),
        ({"boundObjectRef": {"kind": "Pod"}}, 400, "boundObjectRef.name: Required value"),
        (
            {"boundObjectRef": {"kind": "Pod", "name": "web-1", "uid": "other"}},
            409,
            "the UID in the bound object reference (other) does not match",
        ),
    ],
)
async def test_a_request_with_a_mistake_is_told_which(
    accounts: Accounts, spec: dict[str, Any], status: int, says: str
) -> None:
    answer = await accounts.admin.request("POST", PATH, asked(**spec))
    assert answer.status == status
    assert says in answer.json["message"]


async def test_a_token_is_for_pods_of_the_same_account_only(accounts: Accounts) -> None:
    await accounts.world.core.creator.create(pod("other"))
    body = asked(boundObjectRef=await accounts.reference("other"))
    answer = await accounts.admin.request("POST", PATH, body)
    assert answer.status == 400
    assert "pod running with different serviceaccount name" in answer.json["message"]


async def test_an_account_that_does_not_exist_has_no_tokens(accounts: Accounts) -> None:
    path = PATH.replace("builder", "nobody")
    answer = await accounts.admin.request("POST", path, asked())
    assert (answer.status, answer.json["message"]) == (404, 'serviceaccounts "nobody" not found')


async def test_tokens_need_the_right_to_the_subresource(accounts: Accounts) -> None:
    refused = await accounts.asking("alice").request("POST", PATH, asked())
    assert refused.status == 403
    assert 'cannot create resource "serviceaccounts/token"' in refused.json["message"]


async def test_a_server_without_a_key_issues_none(world: World, kube: KubeClient) -> None:
    assert (await kube.request("POST", PATH, asked())).status == 404


async def test_a_dry_run_returns_no_token(accounts: Accounts) -> None:
    answer = await accounts.admin.request("POST", f"{PATH}?dryRun=All", asked())
    assert (answer.status, answer.json["status"]["token"]) == (201, "")


async def test_discovery_publishes_the_keys(accounts: Accounts) -> None:
    found = (await accounts.admin.get("/.well-known/openid-configuration")).json
    assert found["issuer"] == ISSUER
    assert found["jwks_uri"] == f"{ISSUER}/openid/v1/jwks"
    keys = (await accounts.admin.get("/openid/v1/jwks")).json
    token = (await accounts.admin.request("POST", PATH, asked())).json["status"]["token"]
    key = jwt.PyJWKSet.from_dict(keys)[jwt.get_unverified_header(token)["kid"]]
    assert jwt.decode(token, key, audience=ISSUER, options={"verify_exp": False})["iss"] == ISSUER
    assert (await accounts.asking("alice").get("/openid/v1/jwks")).status == 403
