"""What a kube-apiserver v1.36 has answered, read by the client: errors, objects, watches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject
from podsched.serve.client.errors import ServerBug
from podsched.serve.client.informer import EventType, Mirror
from podsched.serve.kube.cluster import KubeCluster
from podsched.serve.kube.objects import read_object
from podsched.serve.kube.reflector import Reflector, WatchEvent
from podsched.serve.kube.status import error_of
from podsched.v1 import api_pb2 as v1
from support.recorded_answers import TOPICS, RecordedHttp, exchange, exchanges, objects

pytestmark = pytest.mark.looptime

FENCE = v1.Fence(lock="kube-system/kube-scheduler", term=7)
UID = "00000000-0000-4000-8000-{:012}".format


@pytest.mark.parametrize("topic", TOPICS)
def test_every_refusal_is_an_error_that_says_what_it_says(topic: str) -> None:
    for name, recorded in exchanges(topic).items():
        answer = recorded["response"]
        status = answer.get("body")
        if answer["status"] < 400 or not isinstance(status, dict) or "message" not in status:
            continue
        raw, headers = json.dumps(status).encode(), answer.get("headers", {})
        error = error_of(answer["status"], raw, headers)
        assert (error.message, error.http_status) == (status["message"], answer["status"]), name
        assert isinstance(error, ServerBug) == (answer["status"] in (406, 500)), name
        if "Retry-After" in headers:
            assert error.retry_after == float(headers["Retry-After"]), name


@pytest.mark.parametrize("topic", TOPICS)
def test_every_object_can_be_read(topic: str) -> None:
    for recorded in exchanges(topic).values():
        for content in objects([recorded["response"].get(part) for part in ("body", "events")]):
            kind = KINDS.get(content["kind"])
            if kind is None or kind.api_version != content.get("apiVersion"):
                continue
            metadata = content.get("metadata") or {}
            message = read_object(kind, content)
            assert message.metadata.name == metadata.get("name", "")
            assert message.metadata.uid == metadata.get("uid", "")
            assert message.metadata.resource_version == metadata.get("resourceVersion", "")


class Follower:
    """A sink of pods."""

    def __init__(self) -> None:
        self.pods: dict[str, AnyObject] = {}
        self.lists = 0

    async def listed(self, kind: str, objects: Mirror) -> None:
        self.pods = objects.stores[kind]
        self.lists += 1

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.pods.get(key)

    def changed(self, kind: str, events: Sequence[WatchEvent]) -> None:
        for event in events:
            if event.type is EventType.DELETED:
                del self.pods[event.key]
            else:
                assert event.object is not None, f"{kind} {event.key} cannot be read"
                self.pods[event.key] = event.object


async def followed(*ids: str) -> tuple[Follower, RecordedHttp, Reflector]:
    http, follower = RecordedHttp(*ids), Follower()
    reflector = Reflector(http, KINDS["Pod"], follower)
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(60)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return follower, http, reflector


async def test_a_streamed_list_is_followed_by_what_happens_then() -> None:
    follower, http, reflector = await followed("watch/send-initial-events-live")
    events = exchange("watch/send-initial-events-live")["response"]["events"]
    assert [e["type"] for e in events] == ["ADDED", "BOOKMARK", "MODIFIED"]
    (pod,) = follower.pods.values()
    assert pod.metadata.resource_version == events[-1]["object"]["metadata"]["resourceVersion"]
    assert (follower.lists, reflector.relists) == (1, 0)
    first, second = http.sent
    assert first.body["sendInitialEvents"] == "true"
    assert second.body["resourceVersion"] == pod.metadata.resource_version


async def test_a_watch_of_a_version_that_is_forgotten_makes_a_new_list() -> None:
    listed = "watch/send-initial-events"
    follower, http, reflector = await followed(listed, "expired/watch-too-old", listed)
    assert (follower.lists, reflector.relists, len(follower.pods)) == (2, 1, 2)
    kinds = ["sendInitialEvents" in sent.body for sent in http.sent]
    assert kinds == [True, False, True, False]


def cluster(http: RecordedHttp) -> KubeCluster:
    return KubeCluster(http, lambda _: True, now=lambda: 1.7e9)


def binding(name: str, node: str, uid: str = "") -> v1.Binding:
    return v1.Binding(namespace="binding", name=name, node_name=node, uid=uid)


async def test_a_binding_is_what_kube_scheduler_sends() -> None:
    http = RecordedHttp("binding/as-kube-scheduler")
    (result,) = await cluster(http).bind_pods([binding("b", "n9", UID(4))], fence=FENCE)
    recorded = exchange("binding/as-kube-scheduler")["request"]
    assert (result.code, http.sent[0].path) == (0, recorded["path"].partition("?")[0])
    assert http.sent[0].body == recorded["body"]


@pytest.mark.parametrize(
    ("names", "wanted", "reason"),
    [
        (("twice", "bound"), binding("a", "binding-n1", UID(3)), ""),
        (("twice-other-node", "bound"), binding("a", "binding-n2"), "ALREADY_BOUND"),
        (("wrong-uid", "still-unbound"), binding("b", "n1", UID(0)), "PRECONDITION_FAILED"),
        (("gated", "create-gated"), binding("gated", "n1"), "SCHEDULING_GATED"),
        (("missing",), binding("nosuchpod", "n1"), "NOT_FOUND"),
        (("namespace-missing",), binding("a", "n1"), "NOT_FOUND"),
    ],
)
async def test_a_binding_that_is_refused_says_why(
    names: tuple[str, ...], wanted: v1.Binding, reason: str
) -> None:
    http = RecordedHttp(*(f"binding/{name}" for name in names))
    (result,) = await cluster(http).bind_pods([wanted], fence=FENCE)
    assert result.reason == reason, result


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("allowed", ""),
        ("refused", "DISRUPTION_BUDGET"),
        ("wrong-uid", "PRECONDITION_FAILED"),
        ("missing", "NOT_FOUND"),
    ],
)
async def test_an_eviction_is_done_or_says_why_not(name: str, reason: str) -> None:
    http = RecordedHttp(f"eviction/{name}")
    recorded = exchange(f"eviction/{name}")["request"]
    wanted = v1.EvictRequest(namespace="eviction", name=recorded["body"]["metadata"]["name"])
    (result,) = await cluster(http).evict_pods([wanted], fence=FENCE)
    assert result.reason == reason, result
    assert [(sent.method, sent.path) for sent in http.sent] == [("POST", recorded["path"])]
