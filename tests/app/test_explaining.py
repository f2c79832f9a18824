"""Explanations of a replica: one after another, with pauses for scheduling."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.objects import Pod, key_of
from podsched.app import explaining as module
from podsched.app.answering import Unanswerable
from podsched.app.explaining import Explaining
from podsched.ask.decisions.rows import DecisionQuery
from podsched.lib.event_loop import Turn
from podsched.term.cycle.outcomes import SCHEDULED
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsResponse
from podsched.v1.scheduling_pb2 import (
    Answer,
    ExplainRequest,
    PodState,
    Question,
    ReplicaState,
)
from support.explain_world import ExplainWorld
from support.fake_threads import Threads
from support.gangs import gang
from support.whatif_world import owned

LEADER = ReplicaState(name="me", identity="me_1", leading=True, term=4)


def question(name: str = "web") -> Question:
    return Question(explain=ExplainRequest(namespace="default", name=name))


class Seen:
    """An informer that has seen everything up to revision 10."""

    def __init__(self, *pods: Pod) -> None:
        self._pods = {key_of(pod): pod for pod in pods}

    async def wait_for_revision(self, revision: int) -> None:
        if revision > 10:
            await asyncio.Event().wait()

    def objects(self, kind: str) -> dict[str, object]:
        return dict(self._pods)


def explaining(world: ExplainWorld | None, *stored: Pod) -> Explaining:
    informer: Any = Seen(*stored)
    return Explaining(lambda: world.state if world else None, lambda: LEADER, informer)


async def first(answers: object) -> Answer:
    found: Answer = await anext(answers)  # type: ignore[call-overload]
    return found


async def test_an_explanation_says_who_answers() -> None:
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    answer = (await first(explaining(world).answer(question()))).explanation
    by = answer.answered_by
    assert (by.replica, by.identity, by.leading, by.term) == ("me", "me_1", True, 4)
    assert by.time.seconds > 0
    assert answer.nodes == 1


async def test_an_answer_waits_until_the_decision_for_a_pod_group_is_over() -> None:
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    with world.state.after_trial.others_run():
        asking = asyncio.create_task(first(explaining(world).answer(question())))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asking.done()
    await world.state.after_trial.trial_ended(Turn(), pytest.fail)
    assert (await asking).explanation.state == PodState.PENDING


@pytest.mark.looptime
async def test_an_answer_waits_while_the_units_of_queues_are_read() -> None:
    """Until then some of them are missing."""
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    world.state.admission.is_refreshing = True
    asking = asyncio.create_task(first(explaining(world).answer(question())))
    await asyncio.sleep(0.05)
    assert not asking.done()
    world.state.admission.is_refreshing = False
    assert (await asking).explanation.state == PodState.PENDING


class OneDecision:
    """A decision log of one decision, which gave the pod "web" the node "a"."""

    def latest(self, *_: str) -> list[DecisionRecord]:
        return [DecisionRecord(node_name="a", outcome=SCHEDULED)]

    def find(self, _: DecisionQuery) -> DecisionsResponse:
        return DecisionsResponse()


async def test_a_pod_that_a_pod_group_would_preempt_is_explained_with_its_own_decision() -> None:
    """While that is tried, the scheduler's cache does not have the pod."""
    world, web = ExplainWorld(), owned("web", "a")
    informer: Any = Seen(web)
    log: Any = OneDecision()
    world.node("a")
    one = Explaining(lambda: world.state, lambda: LEADER, informer, log)
    with world.state.after_trial.others_run():
        asking = asyncio.create_task(first(one.answer(question())))
        for _ in range(10):
            await asyncio.sleep(0)
    world.put(web)
    await world.state.after_trial.trial_ended(Turn(), pytest.fail)
    assert (await asking).explanation.decision.node_name == "a"


async def test_a_question_without_a_revision_waits_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as those of a replica's page: on a Kubernetes cluster the wait lists pods."""
    monkeypatch.setattr(module, "_CATCH_UP_SECONDS", 0.0)
    monkeypatch.setattr(Seen, "wait_for_revision", lambda *_: asyncio.Event().wait())
    world = ExplainWorld()
    world.pod("web", "5")
    answer = (await first(explaining(world).answer(question()))).explanation
    assert answer.state == PodState.PENDING


async def test_an_unknown_pod_is_not_found() -> None:
    with pytest.raises(Unanswerable, match='pods "web" not found'):
        await first(explaining(ExplainWorld()).answer(question()))


async def test_no_changes_are_looked_for_that_help_a_pod_that_is_set_aside() -> None:
    world = ExplainWorld()
    stored = owned("web")
    stored.spec.containers.add(name="c").resources.requests["cpu"] = "x"
    world.put(stored)
    asked = Question(explain=ExplainRequest(namespace="default", name="web", changes=True))
    answer = (await first(explaining(world, stored).answer(asked))).explanation
    assert answer.state == PodState.PENDING
    assert not answer.changes


async def test_a_pod_group_is_explained_with_what_would_let_it_start() -> None:
    world = ExplainWorld()
    world.node("a", allocatable={"cpu": "2", "pods": "10"})
    group, members = gang("train", 3, 3)
    for obj in (group, *members):
        world.put(obj)
    asked = Question(
        explain=ExplainRequest(namespace="default", name="train", kind="PodGroup", changes=True)
    )
    answer = (await first(explaining(world).answer(asked))).explanation
    standing = answer.pod_group
    assert (answer.state, standing.members, standing.min_count) == (PodState.PENDING, 3, 3)
    assert (standing.domains[0].holds, standing.domains[0].lacks) == (2, 1)
    assert answer.queue.queue == "active"
    assert {change.kind for change in answer.changes} == {"min-count", "node"}
    assert answer.answered_by.replica == "me"


async def test_when_a_group_may_start_is_told_by_members_like_its_own() -> None:
    world = ExplainWorld()
    world.node("a", allocatable={"cpu": "2", "pods": "10"})
    group, members = gang("train", 3, 3)
    for obj in (group, *members):
        world.put(obj)
    one = explaining(world)
    bound = [owned(f"like-{number}", "a") for number in range(3)]
    for number, pod in enumerate(bound):
        pod.metadata.creation_timestamp.FromSeconds(1_000 + number)
        condition = pod.status.conditions.add(type="PodScheduled", status="True")
        condition.last_transition_time.FromSeconds(1_060 + number)
    stored = {pod.metadata.name: pod for pod in bound}
    one._informer.objects = lambda kind: stored  # type: ignore[method-assign]
    asked = Question(
        explain=ExplainRequest(namespace="default", name="train", kind="PodGroup", changes=True)
    )
    eta = (await first(one.answer(asked))).explanation.eta
    assert len(eta.quantiles) == 3
    assert eta.basis[-1] == "This is for one member; room for all members at once may come later."


async def test_an_unknown_group_is_not_found() -> None:
    asked = Question(explain=ExplainRequest(namespace="default", name="train", kind="PodGroup"))
    with pytest.raises(Unanswerable, match='podgroups "train" not found'):
        await first(explaining(ExplainWorld()).answer(asked))


async def test_a_replica_that_is_loading_says_so() -> None:
    with pytest.raises(Unanswerable, match="replica me is loading"):
        await first(explaining(None).answer(question()))


async def test_the_next_explanation_waits_until_scheduling_had_its_turn() -> None:
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    one = explaining(world)
    running = one.answer(question())
    await first(running)
    waiting = asyncio.create_task(first(one.answer(question())))
    await asyncio.sleep(0)
    assert not waiting.done()
    async for _ in running:
        pass
    assert (await waiting).explanation.nodes == 1


async def test_scheduling_has_its_turn_though_the_asker_wants_no_more_than_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_REST", 1e6)
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    one = explaining(world)
    running = one.answer(question())
    await first(running)
    await running.aclose()
    waiting = asyncio.create_task(first(one.answer(question())))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()


async def test_no_second_search_begins_while_that_of_one_who_gave_up_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = Threads()
    monkeypatch.setattr(asyncio, "to_thread", threads.run)
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    one, asked = explaining(world), question()
    asked.explain.changes = True
    impatient = asyncio.create_task(first(one.answer(asked)))
    await threads.begun.wait()
    impatient.cancel()
    patient = asyncio.create_task(first(one.answer(asked)))
    await threads.end_all()
    await asyncio.wait([impatient])
    assert (await patient).explanation.changes
    assert threads.most == 1


async def test_a_replica_that_has_not_seen_what_the_asker_has_seen_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_CATCH_UP_SECONDS", 0.001)
    asked = question()
    asked.revision = 11
    with pytest.raises(Unanswerable, match="replica me is behind"):
        await first(explaining(ExplainWorld()).answer(asked))


async def test_what_would_make_a_pod_fit_is_looked_for_when_asked_for() -> None:
    world = ExplainWorld()
    world.node("a")
    world.pod("web", "5")
    asked = question()
    asked.explain.changes = True
    answer = (await first(explaining(world).answer(asked))).explanation
    assert [change.kind for change in answer.changes] == ["requests"]
    assert answer.changes[0].examples == ["a"]
    assert not (await first(explaining(world).answer(question()))).explanation.changes


async def test_a_standby_says_that_its_queue_is_not_the_leaders() -> None:
    world = ExplainWorld()
    world.pod("web")
    informer: Any = Seen()
    standby = ReplicaState(name="other", identity="other_1")
    asked = Explaining(lambda: world.state, lambda: standby, informer)
    answer = (await first(asked.answer(question()))).explanation
    assert any("stands by" in note for note in answer.notes)
    leader = (await first(explaining(world).answer(question()))).explanation
    assert not leader.notes
