"""Discovery: every kind of the register, in Kubernetes' shapes."""

from __future__ import annotations

from podsched.api.kinds import KINDS
from support.kube_client import KubeClient

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_every_kind_of_the_register_is_discovered_in_its_group(kube: KubeClient) -> None:
    for kind in KINDS.values():
        path = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.api_version}"
        listed = (await kube.get(path)).json["resources"]
        [found] = [resource for resource in listed if resource["name"] == kind.plural]
        assert (found["kind"], found["namespaced"]) == (kind.name, kind.namespaced)


async def test_aggregated_discovery_has_all_groups_in_one_answer(kube: KubeClient) -> None:
    response = await kube.get("/apis", f"{AGGREGATED},application/json")
    assert response.headers["content-type"] == AGGREGATED
    names = [item["metadata"]["name"] for item in response.json["items"]]
    assert set(names) >= {kind.group for kind in KINDS.values() if kind.group}


async def test_an_unknown_group_is_no_page_and_an_unknown_version_no_resource(
    kube: KubeClient,
) -> None:
    assert (await kube.get("/apis/no-such-group/v1")).body == b"404 page not found\n"
    assert (await kube.get("/apis/apps/v9")).json["reason"] == "NotFound"
    assert (await kube.request("POST", "/version")).json["code"] == 405
