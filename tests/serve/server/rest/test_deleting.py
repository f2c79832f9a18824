"""Deletions over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.serve.store.protocol import Put
from support.api_objects import pod
from support.api_world import World
from support.kube_client import KubeClient

KEY = object_key(KINDS["Pod"], "default/web")


@pytest.mark.parametrize(
    "value", [b"\xff", pod("other").SerializeToString()], ids=["undecodable", "another name"]
)
async def test_an_object_that_cannot_be_read_can_be_deleted(
    world: World, kube: KubeClient, value: bytes
) -> None:
    await world.store.txn((), [Put(KEY, value)])
    answer = await kube.request("DELETE", "/api/v1/namespaces/default/pods/web")
    assert answer.status == 200, answer.json
    assert answer.json["metadata"]["name"] == "web"
    assert (await world.store.get(KEY)).kv is None


@pytest.mark.parametrize(
    ("query", "finalizers"), [("", ["orphan"]), ("?propagationPolicy=Background", None)]
)
async def test_a_replication_controller_keeps_its_pods_unless_a_policy_says_otherwise(
    kube: KubeClient, query: str, finalizers: list[str] | None
) -> None:
    path = "/api/v1/namespaces/default/replicationcontrollers"
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "app:1"}]},
    }
    await kube.request("POST", path, {"metadata": {"name": "web"}, "spec": {"template": template}})
    await kube.request("DELETE", f"{path}/web{query}")
    left = (await kube.get(f"{path}/web")).json
    assert left["metadata"].get("finalizers") == finalizers


async def test_of_a_collection_no_more_are_deleted_than_the_limit_says(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create_many([pod(name) for name in "abc"])
    pods = "/api/v1/namespaces/default/pods"
    first = (await kube.request("DELETE", f"{pods}?limit=2")).json
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in (await kube.get(pods)).json["items"]] == ["c"]
    await kube.request("DELETE", f"{pods}?limit=2&continue={first['metadata']['continue']}")
    assert (await kube.get(pods)).json["items"] == []


@pytest.mark.parametrize("grace", [2**63, -(2**63) - 1, "5"])
async def test_a_grace_period_that_is_no_number_of_64_bits_is_refused(
    kube: KubeClient, grace: Any
) -> None:
    path, options = "/api/v1/namespaces/default/pods/web", {"gracePeriodSeconds": grace}
    assert (await kube.request("DELETE", path, options)).status == 400
    eviction = {"metadata": {"name": "web"}, "deleteOptions": options}
    assert (await kube.request("POST", f"{path}/eviction", eviction)).status == 400


async def test_a_word_in_place_of_a_boolean_is_no_wish_to_keep_dependents(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(pod("web"))
    path = "/api/v1/namespaces/default/pods/web"
    assert (await kube.request("DELETE", path, {"orphanDependents": "false"})).status == 400
    assert (await kube.get(path)).status == 200
