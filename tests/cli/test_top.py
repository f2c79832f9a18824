from __future__ import annotations

from typing import Any, cast

import pytest

from podsched.api.manifest import from_manifest
from podsched.cli.printers import aligned
from podsched.cli.top import View, cropped, follow, node_rows, pod_rows, queue_rows, summary
from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.serve.client.object_watch import Change, ChangeType
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.engine_world import node as node_of
from support.scripted_watches import Streams


def put(view: View, manifest: dict[str, Any], now: float = 0.0, *, deleted: bool = False) -> None:
    kind = ChangeType.DELETED if deleted else ChangeType.MODIFIED
    view.apply(Change(kind, from_manifest(manifest).message, 1), now)


def node(name: str, cpu: str = "4", ready: str = "True") -> dict[str, Any]:
    status = {
        "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, on: str = "", cpu: str = "1", **status: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    spec = {"nodeName": on, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    metadata = {
        "name": name, "namespace": "default", "creationTimestamp": "1970-01-01T00:00:40Z"
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def unschedulable(reason: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"conditions": [{**condition, "message": reason}]}


def cluster() -> View:
    view = View()
    for manifest in (node("a"), node("b", "8"), pod("x", "b", "6"), pod("y", "a"), pod("z")):
        put(view, manifest)
    return view


def test_the_fullest_node_comes_first_with_its_share() -> None:
    rows = node_rows(cluster(), "cpu")
    assert rows[1] == ["b", "Ready", "6/8", "75%", "1Gi/32Gi", "3%", "1/110"]
    assert [row[0] for row in node_rows(cluster(), "name")[1:]] == ["a", "b"]


def test_a_table_of_nodes_fits_eighty_columns() -> None:
    view = View()
    put(view, node("node-" + "0" * 20, "128"))
    assert all(len(line) <= 80 for line in aligned(node_rows(view, "cpu")))


def test_what_is_deleted_or_has_ended_is_not_shown() -> None:
    view = cluster()
    put(view, pod("x", "b", "6", phase="Succeeded"))
    put(view, node("a"), deleted=True)
    assert [row[0] for row in node_rows(view, "cpu")[1:]] == ["b"]
    assert [row[0] for row in pod_rows(view, "name", 100.0)[1:]] == ["default/y", "default/z"]
    put(view, pod("y", "a"), deleted=True)
    assert summary(view) == "1 node, 1 ready; 2 pods, 1 waiting"


def test_waiting_pods_are_counted_by_what_they_wait_for() -> None:
    view = cluster()
    for name in ("m", "n"):
        put(view, pod(name, **unschedulable("0/2 nodes are available")))
    gated = pod("g")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    put(view, gated)
    put(view, pod("p", nominatedNodeName="a"))
    assert queue_rows(view, 100.0)[1:] == [
        ["unschedulable", "2", "60s", "default/m", "0/2 nodes are available"],
        ["gated", "1", "60s", "default/g", "example.com/quota"],
        ["nominated", "1", "60s", "default/p", "room on a"],
        ["to be tried", "1", "60s", "default/z", ""],
    ]


def test_bindings_are_counted_over_the_last_seconds() -> None:
    view = cluster()
    put(view, pod("z", "a"), 100.0)
    assert view.bound_per_second(105.0) == 0.1
    assert view.bound_per_second(111.0) == 0.0


def test_a_table_that_is_too_long_says_how_much_is_left_out() -> None:
    assert cropped(["HEAD", "a", "b", "c"], 3) == ["HEAD", "a", "... 2 more"]
    assert cropped(["HEAD", "a"], 3) == ["HEAD", "a"]


@pytest.mark.looptime
async def test_all_is_shown_anew_by_a_server_that_forgot_the_history_once_one_answers() -> None:
    event = RawWatchEvent(type=v1.ADDED, object=v1.Object(node=node_of("n2")).SerializeToString())
    client = Streams(
        ([], Compacted("forgotten")),
        ([], Unavailable("it restarts")),
        ([RawWatchResponse(events=[event])], ClientError("the end")),
    )
    view = View(nodes={"n1": node_of("n1")})
    with pytest.raises(ClientError, match="the end"):
        await follow(cast(Any, client), view, 7)
    assert [*view.nodes] == ["n2"]
    assert client.asked == [(7, False), (0, True), (0, True)]


@pytest.mark.looptime
async def test_what_is_shown_says_since_when_no_server_answers() -> None:
    view, told = View(), []

    class Told(Streams):
        async def watch_stream(self, request: v1.WatchRequest) -> Any:
            told.append(view.outage)
            async for one in super().watch_stream(request):
                yield one
                told.append(view.outage)

    gone = Unavailable("gone")
    client = Told(([], gone), ([], gone), ([RawWatchResponse(revision=8)] * 2, ClientError("end")))
    with pytest.raises(ClientError, match="end"):
        await follow(cast(Any, client), view, 7)
    assert [text.partition(" since")[0] for text in told] == [
        *("", "", "No API server answers"),
        *("", ""),
    ]
