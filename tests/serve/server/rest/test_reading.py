"""get and list over HTTP: the same objects as over gRPC, in the form that the client accepts."""

from __future__ import annotations

import pytest

from podsched.api.objects import ConfigMap, RuntimeClass
from support.api_objects import node, pod
from support.api_world import World
from support.kube_client import TABLE, KubeClient

PODS = "/api/v1/namespaces/default/pods"


async def test_an_object_has_the_resource_version_that_grpc_shows(
    world: World, kube: KubeClient
) -> None:
    entry = await world.core.creator.create(pod("a"))
    found = (await kube.get(f"{PODS}/a")).json
    assert found["metadata"]["resourceVersion"] == str(entry.revision)
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")


async def test_pages_show_the_state_of_the_first(world: World, kube: KubeClient) -> None:
    for name in ("a", "c", "d"):
        await world.core.creator.create(pod(name))
    first = (await kube.get(f"{PODS}?limit=2")).json
    assert first["metadata"]["remainingItemCount"] == 1
    await world.core.creator.create(pod("e"))
    rest = (await kube.get(f"{PODS}?limit=2&continue={first['metadata']['continue']}")).json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["d"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


@pytest.mark.parametrize(
    ("query", "accept", "names"),
    [
        ("", "", "abcdef"),
        ("?resourceVersion=0&limit=2", "", "abcdef"),
        ("?includeObject=Metadata", TABLE, "abcdef"),
        ("?limit=9", "", "abcde"),
    ],
)
async def test_a_list_without_a_limit_is_complete_however_long_it_is(
    world: World, kube: KubeClient, query: str, accept: str, names: str
) -> None:
    """Clients that set no limit may not know of pages."""
    text = "x" * 900_000
    for name in "abcdef":
        config_map = ConfigMap(metadata={"name": name, "namespace": "default"}, data={"a": text})
        await world.core.creator.create(config_map)
    listed = (await kube.get(f"/api/v1/namespaces/default/configmaps{query}", accept)).json
    found = [row["object"] for row in listed["rows"]] if accept else listed["items"]
    assert "".join(item["metadata"]["name"] for item in found) == names
    assert ("continue" in listed["metadata"]) == (names != "abcdef")


async def test_an_exact_version_is_the_state_of_then(world: World, kube: KubeClient) -> None:
    then = (await world.core.creator.create(pod("a"))).revision
    await world.core.creator.create(pod("b"))
    for how in ("resourceVersionMatch=Exact", "limit=9"):
        found = (await kube.get(f"{PODS}?resourceVersion={then}&{how}")).json
        assert [item["metadata"]["name"] for item in found["items"]] == ["a"]
        assert found["metadata"]["resourceVersion"] == str(then)


async def test_a_table_has_kubernetes_columns_and_the_metadata_of_each_row(
    world: World, kube: KubeClient
) -> None:
    await world.core.creator.create(node("n"))
    table = (await kube.get("/api/v1/nodes", TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]][:4] == [
        "Name",
        "Status",
        "Roles",
        "Age",
    ]
    assert table["rows"][0]["object"]["metadata"]["name"] == "n"


async def test_the_table_of_runtime_classes_has_their_handlers(
    world: World, kube: KubeClient
) -> None:
    kata = RuntimeClass(handler="kata-qemu")
    kata.metadata.name = "kata"
    await world.core.creator.create(kata)
    table = (await kube.get("/apis/node.k8s.io/v1/runtimeclasses", TABLE)).json
    assert table["rows"][0]["cells"][:2] == ["kata", "kata-qemu"]


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("fieldSelector=spec.hostname%3Dx", 400, "field label not supported: spec.hostname"),
        ("resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided"),
        (
            "resourceVersionMatch=Some&continue=x&sendInitialEvents=true",
            422,
            "[resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless "
            "resourceVersion is provided, resourceVersionMatch: Forbidden: resourceVersionMatch is "
            "forbidden when continue is provided, resourceVersionMatch: Unsupported value: "
            '"Some": supported values: "Exact", "NotOlderThan", "", sendInitialEvents: '
            "Forbidden: sendInitialEvents is forbidden for list]",
        ),
        (
            "watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            422,
            "[resourceVersionMatch: Forbidden: sendInitialEvents requires setting "
            "resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "
            '"Exact": supported values: "NotOlderThan"]',
        ),
        ("limit=many", 400, "limit"),
        ("continue=garbage", 400, "continue key is not valid"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused_in_kubernetes_words(
    kube: KubeClient, query: str, code: int, text: str
) -> None:
    response = await kube.get(f"{PODS}?{query}")
    assert response.status == response.json["code"] == code
    assert text in response.json["message"]


async def test_who_accepts_only_protobuf_is_told_what_there_is(kube: KubeClient) -> None:
    response = await kube.get(PODS, "application/vnd.kubernetes.protobuf")
    assert (response.status, response.json["reason"]) == (406, "NotAcceptable")
