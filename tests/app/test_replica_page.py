"""What a replica's page reads of its informer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

from podsched.api.reasons import StatusCode
from podsched.app import replica_page
from podsched.app.answering import Answerer, Unanswerable
from podsched.app.replica_page import InformerSource, ReplicaExplainer
from podsched.ask.web.access import Caller
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.v1.scheduling_pb2 import Answer, ExplainRequest, Explanation, Question
from support.page_world import node, pod

CALLER = Caller("", b"", "ipv4:127.0.0.1:1")


def source() -> InformerSource:
    stores = {"Node": {"n0": node("n0")}, "Pod": {"default/p0": pod("p0")}}
    informer = SimpleNamespace(
        objects=lambda kind: stores[kind], get=lambda kind, key: stores[kind].get(key)
    )
    return InformerSource(cast(InformerPort, informer))


def batch(*changes: tuple[str, str]) -> Batch:
    return Batch(7, [Event(EventType.MODIFIED, kind, key, None, None) for kind, key in changes])


def test_nothing_is_noted_without_followers() -> None:
    read = source()
    read.handle(batch(("Pod", "default/p0")))
    assert read.changed() is None, "begin anew"
    read.follow()
    read.unfollow()
    read.handle(batch(("Pod", "default/p0")))
    read.follow()
    assert list(read.changed() or ()) == []


def test_changes_of_what_the_page_shows_are_noted_once() -> None:
    read = source()
    read.follow()
    read.handle(batch(("Pod", "default/p0"), ("Lease", "kube-system/x"), ("Pod", "default/p0")))
    read.handle(batch(("Node", "n0")))
    assert sorted(read.changed() or ()) == [("Node", "n0"), ("Pod", "default/p0")]
    assert list(read.changed() or ()) == []


def test_too_many_changes_are_a_new_beginning(monkeypatch: Any) -> None:
    monkeypatch.setattr(replica_page, "_MOST_CHANGES", 2)
    read = source()
    read.follow()
    read.handle(batch(*(("Pod", f"default/p{n}") for n in range(3))))
    assert read.changed() is None
    assert list(read.changed() or ()) == []


def test_a_scheduler_follows_no_events() -> None:
    read = source()
    assert (read.keys("Event"), read.get("Event", "default/e")) == ([], None)
    assert (read.keys("Pod"), read.get("Node", "none")) == (["default/p0"], None)


def asked(kind: str, name: str, *, changes: bool = False) -> ExplainRequest:
    return ExplainRequest(kind=kind, namespace="default", name=name, changes=changes)


def answers(refused: Unanswerable | None = None) -> Answerer:
    async def answer(question: Question) -> AsyncGenerator[Answer, None]:
        if refused is not None:
            raise refused
        of = question.explain
        found = Explanation(message=f"{of.kind} {of.namespace} {of.name} {of.changes}")
        yield Answer(explanation=found)

    return answer


async def test_a_replica_explains_its_pods_itself() -> None:
    reply = await ReplicaExplainer(answers()).explain(CALLER, asked("Pod", "p0", changes=True))
    assert (reply.status, reply.body) == (200, b'{"message": "Pod default p0 True"}')
    reply = await ReplicaExplainer(answers()).explain(CALLER, asked("PodGroup", "g"))
    assert (reply.status, reply.body) == (200, b'{"message": "PodGroup default g False"}')


async def test_what_cannot_be_explained_says_why() -> None:
    unknown = Unanswerable(StatusCode.NOT_FOUND, 'pods "p0" not found')
    reply = await ReplicaExplainer(answers(unknown)).explain(CALLER, asked("Pod", "p0"))
    assert (reply.status, reply.body) == (404, b'{"message": "pods \\"p0\\" not found"}')
