"""Writes of who has few rights."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Namespace
from podsched.serve.server.pipeline import Pipeline
from support.access_world import binding_of, identity
from support.api_world import World
from support.kube_client import KubeClient

MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"
LABELLED = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "cluster-admin", "labels": {"mine": "yes"}},
}
OPERATIONS = [{"op": "add", "path": "/metadata/labels/mine", "value": "yes"}]


@pytest.mark.parametrize(
    ("method", "query", "body", "headers"),
    [
        ("PATCH", "", LABELLED, MERGE),
        ("PATCH", "", LABELLED, STRATEGIC),
        ("PATCH", "", OPERATIONS, JSON_PATCH),
        ("PATCH", "?fieldManager=one&force=true", LABELLED, APPLY),
        ("PUT", "", LABELLED, {}),
    ],
    ids=["merge", "strategic", "json", "apply", "update"],
)
async def test_who_labels_a_role_with_more_rights_than_his_is_refused(
    world: World, method: str, query: str, body: Any, headers: dict[str, str]
) -> None:
    scheduler = identity("system:kube-scheduler")
    asking = Pipeline(authenticate=lambda _: scheduler, authorize=world.core.authorizer.rights_of)
    if method == "PUT":
        stored = (await KubeClient(world.core).request("GET", ROLE)).json
        body = body | {"rules": stored["rules"]}
    refused = await KubeClient(world.core, asking).request(method, ROLE + query, body, headers)
    assert refused.status == 403, refused.json
    assert "attempting to grant RBAC permissions not currently held" in refused.json["message"]


@pytest.mark.parametrize(
    ("subresource", "body"),
    [("binding", {"target": {"name": "worker-1"}}), ("eviction", {})],
)
@pytest.mark.parametrize("namespace", ["default", "none"])
async def test_who_has_no_right_is_not_told_which_namespaces_exist(
    world: World, subresource: str, body: dict[str, Any], namespace: str
) -> None:
    nobody = identity("nobody")
    asking = Pipeline(authenticate=lambda _: nobody, authorize=world.core.authorizer.rights_of)
    path = f"/api/v1/namespaces/{namespace}/pods/web/{subresource}"
    body = body | {"metadata": {"name": "web"}}
    refused = await KubeClient(world.core, asking).request("POST", path, body)
    assert refused.status == 403, refused.json


async def test_who_may_view_a_namespace_may_get_it_and_its_status_but_not_others(
    world: World,
) -> None:
    for name in ("team", "other"):
        await world.core.creator.create(Namespace(metadata={"name": name}))
    await world.core.creator.create(binding_of("view", "bob", "team"))
    await world.core.reflector.wait_until_fresh()
    bob = identity("bob")
    asking = Pipeline(authenticate=lambda _: bob, authorize=world.core.authorizer.rights_of)
    paths = ("team", "team/status", "other", "other/status", "")
    answers = [
        await KubeClient(world.core, asking).get(f"/api/v1/namespaces/{path}") for path in paths
    ]
    assert [answer.status for answer in answers] == [200, 200, 403, 403, 403]
