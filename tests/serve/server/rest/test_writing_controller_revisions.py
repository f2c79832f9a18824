"""ControllerRevisions, by both faces."""

from __future__ import annotations

import json
from typing import Any

from podsched.api.manifest import to_manifest
from podsched.cli.printers import TablePrinter
from support.api_world import World
from support.kube_client import TABLE, KubeClient

REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
APPLY = {"content-type": "application/apply-patch+yaml"}


def revision(state: dict[str, Any]) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "web-1", "ownerReferences": [{**owner, "controller": True}]},
        "data": state,
        "revision": 2,
    }


async def test_what_rest_stores_is_what_grpc_reads(world: World, kube: KubeClient) -> None:
    state = {"z": {"$patch": "replace", "numbers": [1, 2.5], "none": None}, "a": "&<ü>"}
    created = await kube.request("POST", REVISIONS, revision(state))
    assert (created.status, created.json["data"]) == (201, state)
    assert json.dumps(created.json["data"]) == json.dumps(state), "in its order"
    assert "generation" not in created.json["metadata"]
    entry = await world.core.registry.get("ControllerRevision", "default", "web-1")
    assert to_manifest(entry.message)["data"] == state


async def test_a_number_beyond_64_bits_is_shown_as_it_is(kube: KubeClient) -> None:
    state = {"a": 10**30, "b": -(2**63) - 1}
    created = await kube.request("POST", REVISIONS, revision(state))
    assert (created.status, created.json["data"]) == (201, state)
    [listed] = (await kube.get(REVISIONS)).json["items"]
    assert listed["data"] == state


async def test_its_state_cannot_be_changed(world: World, kube: KubeClient) -> None:
    await kube.request("POST", REVISIONS, revision({"a": 1}))
    changed = await kube.request("PUT", f"{REVISIONS}/web-1", revision({"a": 2}))
    assert (changed.status, changed.json["message"]) == (
        422,
        'ControllerRevision.apps "web-1" is invalid: '
        'data: Invalid value: {"a":2}: field is immutable',
    )


async def test_its_tables_tell_controller_and_revision(world: World, kube: KubeClient) -> None:
    await kube.request("POST", REVISIONS, revision({}))
    table = (await kube.get(REVISIONS, TABLE)).json
    named = [column["name"] for column in table["columnDefinitions"]]
    assert named == ["Name", "Controller", "Revision", "Age"]
    assert table["rows"][0]["cells"][:3] == ["web-1", "statefulset.apps/web", 2]
    entry = await world.core.registry.get("ControllerRevision", "default", "web-1")
    printer = TablePrinter(entry.kind, namespaces=False, wide=False)
    assert [line.split()[:3] for line in printer.lines([entry.message], 0)] == [
        ["NAME", "CONTROLLER", "REVISION"],
        ["web-1", "statefulset.apps/web", "2"],
    ]


async def test_it_is_found_by_discovery(kube: KubeClient) -> None:
    listed = (await kube.get("/apis/apps/v1")).json["resources"]
    found = next(each for each in listed if each["name"] == "controllerrevisions")
    assert (found["kind"], found["namespaced"]) == ("ControllerRevision", True)
    assert "controllerrevisions/status" not in [each["name"] for each in listed]


async def test_lists_in_its_state_are_applied_whatever_their_items(kube: KubeClient) -> None:
    path = f"{REVISIONS}/web-1?fieldManager=a"
    applied = revision({"finalizers": [{}, [1]]})
    for status in (201, 200):
        answer = await kube.request("PATCH", path, applied, APPLY)
        assert (answer.status, answer.json["data"]) == (status, applied["data"])
