"""Certificate requests over HTTP: who may approve and who may sign."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from podsched.api.objects import ClusterRole
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, identity, rule
from support.api_world import World
from support.kube_client import KubeClient, Response
from support.service_accounts import signing_request

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
GROUP = "certificates.k8s.io"
SIGNER = "example.com/own"
APPROVED = {"type": "Approved", "status": "True", "reason": "KubectlApprove"}


async def asked(kube: KubeClient, **spec: Any) -> Response:
    pem = base64.b64encode(signing_request("alice", ())).decode()
    spec = {"request": pem, "signerName": SIGNER, "usages": ["client auth"], **spec}
    return await kube.request("POST", PATH, {"metadata": {"name": "a"}, "spec": spec})


async def decided(kube: KubeClient, below: str, **status: Any) -> Response:
    body = (await kube.get(f"{PATH}/a")).json
    return await kube.request("PUT", f"{PATH}/a/{below}", body | {"status": status})


async def as_approver(world: World, verb: str, name: str) -> KubeClient:
    """Someone who may write both subresources, and has this verb on one signer."""
    role = ClusterRole(metadata={"name": "deciding"})
    below = "certificatesigningrequests/approval certificatesigningrequests/status"
    role.rules.append(rule("get", "certificatesigningrequests", groups=(GROUP,)))
    role.rules.append(rule("update", below, groups=(GROUP,)))
    role.rules.append(rule(verb, "signers", name, groups=(GROUP,)))
    for item in (role, binding_of("deciding", "bob")):
        await world.core.creator.create(item)
    await world.core.reflector.wait_until_fresh()
    bob = identity("bob")
    pipeline = Pipeline(authenticate=lambda _: bob, authorize=world.core.authorizer.rights_of)
    return KubeClient(world.core, pipeline)


async def test_an_approval_writes_the_decision_and_nothing_else(kube: KubeClient) -> None:
    assert (await asked(kube)).status == 201
    answer = await decided(kube, "approval", conditions=[APPROVED], certificate="QUJD")
    assert answer.status == 200, answer.json
    (condition,) = answer.json["status"]["conditions"]
    assert condition["reason"] == "KubectlApprove" and condition["lastUpdateTime"]
    assert "certificate" not in answer.json["status"]


async def test_an_approval_can_be_applied(kube: KubeClient) -> None:
    await asked(kube)
    config: dict[str, Any] = {"apiVersion": f"{GROUP}/v1", "kind": "CertificateSigningRequest"}
    config |= {"metadata": {"name": "a"}, "status": {"conditions": [APPROVED]}}
    headers = {"content-type": "application/apply-patch+yaml"}
    path = f"{PATH}/a/approval?fieldManager=approver"
    answer = await kube.request("PATCH", path, config, headers)
    assert [each["type"] for each in answer.json["status"]["conditions"]] == ["Approved"]


async def test_a_status_writes_the_certificate_and_no_decision(kube: KubeClient) -> None:
    await asked(kube)
    answer = await decided(kube, "status", conditions=[APPROVED], certificate="QUJD")
    assert answer.json["status"] == {"certificate": "QUJD"}
    again = await decided(kube, "status", certificate="QUJE")
    assert again.status == 422


async def test_a_decision_stays(kube: KubeClient) -> None:
    await asked(kube)
    await decided(kube, "approval", conditions=[APPROVED])
    kept = await decided(kube, "approval", conditions=[])
    assert len(kept.json["status"]["conditions"]) == 1
    both = await decided(kube, "approval", conditions=[{"type": "Denied", "status": "True"}])
    assert both.status == 422
    assert "mutually exclusive" in both.json["message"]


@pytest.mark.parametrize("name", [SIGNER, "example.com/*"])
async def test_who_may_approve_for_the_signer_approves_and_signs_not(
    world: World, kube: KubeClient, name: str
) -> None:
    await asked(kube)
    bob = await as_approver(world, "approve", name)
    assert (await decided(bob, "approval", conditions=[APPROVED])).status == 200
    refused = await decided(bob, "status", certificate="QUJD")
    assert refused.status == 403
    assert f'not permitted to sign requests with signerName "{SIGNER}"' in refused.json["message"]


async def test_who_may_approve_for_another_signer_does_not(world: World, kube: KubeClient) -> None:
    await asked(kube)
    bob = await as_approver(world, "approve", "example.com/other")
    assert (await decided(bob, "approval", conditions=[APPROVED])).status == 403


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"request": "no base64"}, 'PEM block type must be "CERTIFICATE REQUEST"'),
        ({"request": "QUJD"}, 'PEM block type must be "CERTIFICATE REQUEST"'),
        ({"request": "A" * 70_000}, "Too long"),
        ({"usages": []}, "usages must be provided"),
        ({"usages": ["client auth", "client auth"]}, "Duplicate value"),
        ({"usages": ["cooking"]}, "Unsupported value"),
        ({"signerName": ""}, "spec.signerName: Required value"),
        ({"signerName": "own"}, "fully qualified domain and path"),
        ({"expirationSeconds": 599}, "less than 600 seconds"),
    ],
)
async def test_a_request_with_a_mistake_is_told_which(
    kube: KubeClient, spec: dict[str, Any], says: str
) -> None:
    answer = await asked(kube, **spec)
    assert answer.status == 422
    assert says in answer.json["message"]


async def test_an_update_leaves_a_request_as_it_is(kube: KubeClient) -> None:
    """As in Kubernetes; a manifest does not say who has asked."""
    made = (await asked(kube)).json
    spec = {"request": made["spec"]["request"], "signerName": "example.com/other"}
    change = {**made, "metadata": {"name": "a", "labels": {"new": ""}}, "spec": spec}
    answer = await kube.request("PUT", f"{PATH}/a", change)
    assert answer.status == 200, answer.json
    assert answer.json["metadata"]["labels"] == {"new": ""}
    assert answer.json["spec"] == made["spec"]
