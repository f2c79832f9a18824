"""OpenAPI v3: sufficient for explain, for validation, and for clients that compute patches."""

from __future__ import annotations

from typing import Any

import pytest

from support.kube_client import KubeClient


async def schema(kube: KubeClient, path: str, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema of a kind, and the document that it is in."""
    paths = (await kube.get("/openapi/v3")).json["paths"]
    document = (await kube.get(paths[path]["serverRelativeURL"])).json
    for found in document["components"]["schemas"].values():
        kinds = found.get("x-kubernetes-group-version-kind", [])
        if any(item["kind"] == kind for item in kinds):
            return found, document
    raise AssertionError(kind)


async def test_a_list_says_how_it_is_patched(kube: KubeClient) -> None:
    """kubectl computes patches from it: without, a list would be replaced."""
    found, document = await schema(kube, "api/v1", "Pod")
    spec = document["components"]["schemas"][found["properties"]["spec"]["$ref"].split("/")[-1]]
    containers = spec["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert spec["properties"]["hostAliases"]["x-kubernetes-patch-merge-key"] == "ip"
    assert "x-kubernetes-patch-strategy" not in spec["properties"]["tolerations"]


async def test_a_selector_that_is_replaced_says_so(kube: KubeClient) -> None:
    """kubectl leaves out of a patch what stays as it is, unless all of it is replaced."""
    found, document = await schema(kube, "apis/policy/v1", "PodDisruptionBudget")
    spec = document["components"]["schemas"][found["properties"]["spec"]["$ref"].split("/")[-1]]
    assert spec["properties"]["selector"]["x-kubernetes-patch-strategy"] == "replace"


@pytest.mark.parametrize(
    ("path", "kind", "member", "strategy"),
    [
        ("apis/apps/v1", "Deployment", "strategy", "retainKeys"),
        ("api/v1", "Pod", "volumes", "merge,retainKeys"),
        ("api/v1", "Pod", "containers", "merge"),
    ],
)
async def test_a_member_of_which_one_form_replaces_another_says_so(
    kube: KubeClient, path: str, kind: str, member: str, strategy: str
) -> None:
    """kubectl apply would leave the defaults of the former strategy in a Deployment."""
    found, document = await schema(kube, path, kind)
    spec = document["components"]["schemas"][found["properties"]["spec"]["$ref"].split("/")[-1]]
    assert spec["properties"][member]["x-kubernetes-patch-strategy"] == strategy


async def test_what_is_stored_without_a_schema_has_kubernetes_one(kube: KubeClient) -> None:
    """kubectl apply looks up members that differ, such as the defaults of a probe."""
    _, document = await schema(kube, "api/v1", "Pod")
    schemas = document["components"]["schemas"]

    def member(found: dict[str, Any], *path: str) -> dict[str, Any]:
        for name in path:
            found = schemas[found["$ref"].split("/")[-1]] if "$ref" in found else found
            found = found["properties"][name]
        return found

    container = schemas["io.podsched.v1.Container"]
    assert member(container, "livenessProbe", "httpGet", "scheme") == {"type": "string"}
    assert member(container, "livenessProbe", "exec", "command")["items"] == {"type": "string"}
    sources = schemas["io.podsched.v1.Container"]["properties"]["envFrom"]["items"]
    assert member(sources, "secretRef", "name") == {"type": "string"}


async def test_operations_say_that_the_server_validates_fields(kube: KubeClient) -> None:
    _, document = await schema(kube, "apis/policy/v1", "PodDisruptionBudget")
    path = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{name}"
    names = [parameter["name"] for parameter in document["paths"][path]["patch"]["parameters"]]
    assert "fieldValidation" in names


async def test_events_have_the_names_of_their_group(kube: KubeClient) -> None:
    found, _ = await schema(kube, "apis/events.k8s.io/v1", "Event")
    assert {"note", "regarding"} <= set(found["properties"])


async def test_the_parameters_in_a_path_are_declared(kube: KubeClient) -> None:
    """Without, the document is not OpenAPI, and generators of clients refuse it."""
    paths = (await kube.get("/openapi/v3/api/v1")).json["paths"]
    declared = paths["/api/v1/namespaces/{namespace}/pods/{name}"]["parameters"]
    assert [(each["name"], each["in"], each["required"]) for each in declared] == [
        ("namespace", "path", True),
        ("name", "path", True),
    ]
    assert paths["/api/v1/nodes"]["parameters"] == []


async def test_a_list_is_answered_with_a_list(kube: KubeClient) -> None:
    """Clients that are generated from the document took it for one object."""
    found, document = await schema(kube, "api/v1", "PodList")
    of_pod = "#/components/schemas/io.k8s.api.core.v1.Pod"
    assert found["properties"]["items"] == {"type": "array", "items": {"$ref": of_pod}}
    pods = document["paths"]["/api/v1/namespaces/{namespace}/pods"]
    for method, answered in (
        ("get", f"{of_pod}List"),
        ("post", of_pod),
        ("delete", f"{of_pod}List"),
    ):
        content = pods[method]["responses"]["200"]["content"]
        assert content["application/json"]["schema"] == {"$ref": answered}
