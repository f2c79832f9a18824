"""Explain and Answer at the API server: rights, and what of an answer a caller may see."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.reasons import StatusCode, StatusReason
from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rights import OWN, Rights, set_rights
from podsched.serve.server.errors import ApiError
from podsched.serve.server.replicas import Replicas
from podsched.serve.server.scheduling import HIDDEN, SchedulingService, hide_pods
from podsched.v1.decisions_pb2 import DecisionsRequest, DecisionsResponse
from podsched.v1.scheduling_pb2 import (
    Answer,
    ApplyConfigRequest,
    ApplyConfigResponse,
    ExplainRequest,
    Explanation,
    PodReference,
    PodState,
    Question,
)
from support.api_objects import pod
from support.api_world import World


def service() -> SchedulingService:
    """The service without a store: these calls end before they read."""
    storage: Any = None
    return SchedulingService(Replicas(), storage)


SAM = Identity("sam", frozenset(), Authentication.CERTIFICATE)


def explanation() -> Explanation:
    mine = PodReference(namespace="team", name="web", uid="1", priority=5)
    other = PodReference(namespace="finance", name="payroll-2027", uid="2", priority=9)
    answer = Explanation(pod=mine)
    answer.queue.pods_ahead.extend([other, mine])
    answer.queue.waiting["active"] = 2
    answer.preemption.candidates.add(node="n1").victims.append(other)
    answer.changes.add(kind="pods-gone", description="delete payroll-2027").pods.append(other)
    return answer


def rights_of(monkeypatch: pytest.MonkeyPatch, *namespaces: str) -> Rights:
    mine = Rights(SAM, Policy())
    monkeypatch.setattr(
        Rights, "permit", lambda self, verb, group, resource, ns="", name="": ns in namespaces
    )
    return mine


def test_pods_that_the_caller_may_not_get_lose_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = explanation()
    hide_pods(answer, rights_of(monkeypatch, "team"))
    hidden = PodReference(namespace=HIDDEN, name=HIDDEN, priority=9)
    assert answer.pod.name == "web"
    assert list(answer.queue.pods_ahead) == [hidden, explanation().pod]
    assert list(answer.preemption.candidates[0].victims) == [hidden]
    assert answer.changes[0].description == "delete 1 of the pods, some hidden from you"
    assert b"payroll" not in answer.SerializeToString()


def test_pods_of_others_in_the_same_queue_lose_their_names_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = Explanation()
    answer.admission.sentence = "It waits for team/pod:web-1 and finance/pod:payroll-2027."
    answer.admission.victims.extend(["team/pod:web-1", "finance/pod:payroll-2027"])
    answer.admission.first.append("finance/pod:payroll-2027")
    hide_pods(answer, rights_of(monkeypatch, "team"))
    assert answer.admission.sentence == f"It waits for team/pod:web-1 and {HIDDEN}."
    assert list(answer.admission.victims) == ["team/pod:web-1", HIDDEN]
    assert list(answer.admission.first) == [HIDDEN]


def test_pods_of_others_that_use_devices_lose_their_names_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = "in use by claim finance/payroll for pods payroll-1, payroll-2 and 3 more"
    mine = "in use by claim team/gpu for pod web-1"
    answer = Explanation()
    answer.groups.add().shortfalls.add(what=f"free devices (on a gpu-0: {theirs}; gpu-1: {mine})")
    answer.node_verdicts.add().parts.add(why_not=f"{theirs}, {mine}")
    hide_pods(answer, rights_of(monkeypatch, "team"))
    [shortfall] = answer.groups[0].shortfalls
    assert shortfall.what == f"free devices (on a gpu-0: in use; gpu-1: {mine})"
    assert answer.node_verdicts[0].parts[0].why_not == f"in use, {mine}"


def test_a_caller_with_all_permissions_sees_everything() -> None:
    answer = explanation()
    hide_pods(answer, OWN)
    assert answer == explanation()


async def test_explaining_needs_the_right_to_get_explanations_of_pods() -> None:
    set_rights(Rights(SAM, Policy()))
    with pytest.raises(ApiError, match='cannot get resource "pods/explain"'):
        await service().explain(ExplainRequest(name="web"))


async def test_answering_needs_a_right_of_its_own() -> None:
    set_rights(Rights(SAM, Policy()))

    async def nothing():  # type: ignore[no-untyped-def]
        return
        yield b""

    with pytest.raises(ApiError, match='cannot answer resource "pods/explain"'):
        await anext(Replicas().serve(nothing()))


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (ExplainRequest(), "name must be specified"),
        (ExplainRequest(name="a", nodes=["n"] * 101), "at most 100 nodes"),
        (ExplainRequest(name="a", kind="Node"), "'Node' is neither Pod nor PodGroup"),
    ],
)
async def test_requests_are_checked(request_: ExplainRequest, why: str) -> None:
    set_rights(OWN)
    with pytest.raises(ApiError, match=why):
        await service().explain(request_)


async def test_a_pod_that_does_not_exist_is_not_found_before_a_replica_is_asked(
    world: World,
) -> None:
    set_rights(OWN)
    asked = ExplainRequest(name="nobody")
    with pytest.raises(ApiError, match='pods "nobody" not found'):
        await SchedulingService(Replicas(), world.core.storage).explain(asked)
    await world.core.creator.create_many([pod("web")])
    with pytest.raises(ApiError, match="no scheduler replica is connected"):
        await SchedulingService(Replicas(), world.core.storage).explain(ExplainRequest(name="web"))


async def test_a_node_that_does_not_exist_is_not_found_whether_or_not_the_pod_waits(
    world: World,
) -> None:
    set_rights(OWN)
    await world.core.creator.create_many([pod("web")])
    asked = ExplainRequest(name="web", nodes=["nope"])
    with pytest.raises(ApiError, match='nodes "nope" not found'):
        await SchedulingService(Replicas(), world.core.storage).explain(asked)


async def test_explaining_a_group_needs_the_right_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = ExplainRequest(name="train", kind="PodGroup")
    permitted = {("get", "pods/explain", "default", "")}
    monkeypatch.setattr(
        Rights,
        "permit",
        lambda self, verb, group, resource, ns="", name="": (verb, resource, ns, name) in permitted,
    )
    set_rights(Rights(SAM, Policy()))
    with pytest.raises(ApiError, match='cannot get resource "podgroups"'):
        await service().explain(asked)


async def test_a_group_that_does_not_exist_is_not_found(world: World) -> None:
    set_rights(OWN)
    asked = ExplainRequest(name="train", kind="PodGroup")
    with pytest.raises(ApiError, match=r'podgroups.* "train" not found'):
        await SchedulingService(Replicas(), world.core.storage).explain(asked)


async def test_a_group_without_an_object_is_asked_of_the_leader(world: World) -> None:
    set_rights(OWN)
    replicas: Any = Answers(leader=Explanation(message="of labels"))
    asking = SchedulingService(replicas, world.core.storage)
    found = await asking.explain(ExplainRequest(name="train", kind="PodGroup"))
    assert Explanation.FromString(found).message == "of labels"


class Answers:
    """Replicas of which each has an answer."""

    def __init__(self, **answers: Explanation) -> None:
        self.asked: list[str] = []
        self._answers = answers

    def names(self) -> list[str]:
        return list(self._answers)

    async def ask_once(self, question: Question, name: str = "") -> Answer:
        name = name or self.names()[0]
        self.asked.append(name)
        return Answer(explanation=self._answers[name])


async def test_of_a_bound_pod_the_replica_that_decided_is_found(world: World) -> None:
    set_rights(OWN)
    await world.core.creator.create_many([pod("web")])
    unknown, decided = (Explanation(state=PodState.BOUND, message=m) for m in ("one", "two"))
    decided.decision.term = 4
    replicas: Any = Answers(leader=unknown, other=unknown, former=decided)
    asking = SchedulingService(replicas, world.core.storage)
    found = Explanation.FromString(await asking.explain(ExplainRequest(name="web")))
    assert found.message == "two"
    assert replicas.asked == ["leader", "other", "former"]
    by_name = ExplainRequest(name="web", replica="leader")
    assert Explanation.FromString(await asking.explain(by_name)).message == "one"


class TwoReplicas:
    """Stands for ``Replicas`` where the decisions of two terms are in two places."""

    def __init__(self, *answers: Answer | ApiError) -> None:
        self.answers = answers

    async def ask_all(self, question: Question) -> list[tuple[str, Answer | ApiError]]:
        return [(str(number), answer) for number, answer in enumerate(self.answers)]


def decided(*ends: int, more: bool = False, dropped: int = 0) -> Answer:
    answer = Answer()
    answer.decisions.more, answer.decisions.dropped = more, dropped
    for end in ends:
        answer.decisions.records.add(number=end).ended_time.FromSeconds(end)
    return answer


async def test_decisions_of_all_replicas_come_together_as_far_as_replicas_answer() -> None:
    set_rights(OWN)
    failed = ApiError(StatusCode.DEADLINE_EXCEEDED, StatusReason.UNAVAILABLE, "slow")
    two: Any = TwoReplicas(decided(1, 4, dropped=1), failed, decided(2, 3, dropped=2))
    storage: Any = None
    answer = await SchedulingService(two, storage).decisions(DecisionsRequest(limit=3))
    response = DecisionsResponse.FromString(answer)
    assert [record.number for record in response.records] == [2, 3, 4]
    assert (response.more, response.dropped) == (True, 3)


async def test_decisions_are_left_out_with_those_that_another_replica_had_no_room_for() -> None:
    """They come on the next page, which begins with the earliest end of this one."""
    set_rights(OWN)
    two: Any = TwoReplicas(decided(4, 5, more=True), decided(1, 6))
    storage: Any = None
    answer = await SchedulingService(two, storage).decisions(DecisionsRequest(limit=100))
    response = DecisionsResponse.FromString(answer)
    assert [record.number for record in response.records] == [4, 5, 6]
    assert response.more


async def test_decisions_need_a_right_in_the_namespaces_asked_about() -> None:
    set_rights(Rights(SAM, Policy()))
    with pytest.raises(ApiError, match=r'"pods/explain" .* at the cluster scope'):
        await service().decisions(DecisionsRequest())


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (DecisionsRequest(name="a"), "a name needs a namespace"),
        (DecisionsRequest(limit=1001), "not between 0 and 1000"),
        (DecisionsRequest(since=Timestamp(seconds=2**60)), "since.*year 9999"),
        (DecisionsRequest(until=Timestamp(nanos=10**9)), "until.*year 9999"),
    ],
)
async def test_questions_about_decisions_are_checked(request_: DecisionsRequest, why: str) -> None:
    set_rights(OWN)
    with pytest.raises(ApiError, match=why):
        await service().decisions(request_)


class Configured:
    """Stands for two replicas, of which one has mistakes to tell."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        self.asked: list[bool] = []

    async def ask_all(self, question: Question) -> list[tuple[str, Answer | ApiError]]:
        validate_only = question.apply_config.validate_only
        self.asked.append(validate_only)
        good, bad = Answer(), Answer()
        good.config.applied = bad.config.applied = not validate_only
        bad.config.errors.extend(self.mistakes)
        return [("a", good), ("b", bad)]


@pytest.mark.parametrize(("mistakes", "asked"), [((), [True, False]), (("no",), [True])])
async def test_no_replica_changes_before_all_have_found_a_configuration_valid(
    mistakes: tuple[str, ...], asked: list[bool]
) -> None:
    set_rights(OWN)
    replicas: Any = Configured(*mistakes)
    storage: Any = None
    raw = await SchedulingService(replicas, storage).apply_config(ApplyConfigRequest())
    outcomes = ApplyConfigResponse.FromString(raw).replicas
    assert replicas.asked == asked
    assert [outcome.applied for outcome in outcomes] == [not mistakes] * 2


async def test_a_configuration_needs_a_right_of_its_own() -> None:
    set_rights(Rights(SAM, Policy()))
    with pytest.raises(ApiError, match='cannot update resource "leases/configuration"'):
        await service().apply_config(ApplyConfigRequest())
