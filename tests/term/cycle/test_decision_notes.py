"""What the cycle tells of its decisions is what it decided, and what became of it."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.framework.plugin import PermitResult
from podsched.framework.status import unschedulable
from podsched.lib.event_loop import Turn
from podsched.plugins.default_preemption import dry_run_cache
from podsched.term.cycle.decision_notes import MOST_SAVED, SHARE, Allowance, digest
from podsched.term.cycle.pod_reports import MESSAGE_LIMIT
from support.engine_world import pod
from support.term_world import TermWorld


class Heard:
    """A sink that remembers entries."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self.count = 0

    def numbers(self, pods: int) -> int:
        self.count += pods
        return self.count - pods

    def put(self, entry: tuple[Any, ...], pods: int = 0) -> None:
        self.entries.append(entry)

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [entry[1:] for entry in self.entries if entry[0] == kind]

    @property
    def decided(self) -> list[tuple[Any, ...]]:
        """The pods of all decisions."""
        return [pod for _, pods in self.of("decided") for pod in pods]


@pytest.mark.looptime
async def test_decisions_are_told_with_their_grounds_and_outcomes() -> None:
    heard = Heard()
    world = TermWorld(decisions=heard)
    world.node("n1")
    world.node("n2", cpu="1")
    async with world.running():
        for name in ("a", "b"):
            world.pod(name)
        await world.pod_and_wait("big", cpu="100")
    (facts,) = heard.of("term")
    assert [name for name in facts[0]["nodes_by_row"] if name] == ["n1", "n2"]
    by_name = {pod[2]: pod for pod in heard.decided}
    assert sorted(pod[0] for pod in by_name.values()) == [1, 2, 3]
    one = by_name["a"]
    assert (one[1], one[3], one[4]) == ("default", "uid-a", 1)
    assert one[8] == world.nodes_of("a")[0]
    big = by_name["big"]
    assert (big[6], big[7], big[8], big[9]) == (2, 0, "", None)
    bound = [uid for uids, _ in heard.of("bound") for uid in uids]
    assert sorted(bound) == sorted(["uid-a", "uid-b"])
    ((uid, outcome, message, _, _),) = heard.of("ended")
    assert (uid, outcome) == ("uid-big", "Unschedulable")
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")


@pytest.mark.looptime
async def test_a_decision_whose_dry_runs_are_made_in_parts_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Turn, "is_over", property(lambda turn: True))
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    monkeypatch.setattr(dry_run_cache, "PART", 1)
    heard = Heard()
    world = TermWorld(decisions=heard)
    for name in ("n1", "n2", "n3"):
        world.node(name)
        world.pod(f"on-{name}", cpu="4", on=name)
    async with world.running():
        await world.pod_and_wait("high", cpu="4", priority=10)
    attempts = [[(pod[2], pod[4]) for pod in pods] for _, pods in heard.of("decided")]
    assert attempts == [[("high", 1)], [("high", 2)]]
    ((_, outcome, *_),) = heard.of("ended")
    assert outcome == "Unschedulable"


@pytest.mark.looptime
async def test_a_pod_that_permit_rejects_has_that_outcome() -> None:
    heard = Heard()
    world = TermWorld(decisions=heard)
    world.script.on_permit = lambda pod: PermitResult(unschedulable("not today"))
    world.node("n1")
    async with world.running():
        await world.pod_and_wait("a", seconds=0.5)
    assert heard.of("ended")[0][1:3] == ("Rejected", "0/1 nodes are available: 1 not today.")


@pytest.mark.looptime
async def test_the_scores_of_the_chosen_node_and_of_the_runners_up_are_told() -> None:
    heard = Heard()
    world = TermWorld(decisions=heard)
    for name in ("n1", "n2"):
        world.node(name)
    async with world.running():
        await world.pod_and_wait("a")
    (told,) = heard.decided
    more = told[11]
    assert more["tied_nodes"] == 2
    assert [(name, total) for name, total, _ in more["scores"]] == [
        ("n1", told[9]),
        ("n2", told[9]),
    ]
    assert all(sum(plugins.values()) == total for _, total, plugins in more["scores"])


@pytest.mark.looptime
async def test_a_message_is_cut_like_that_of_a_condition() -> None:
    heard = Heard()
    world = TermWorld(decisions=heard)
    world.node("n1")
    world.script.on_permit = lambda pod: PermitResult(unschedulable("x" * (1 << 20)))
    async with world.running():
        await world.pod_and_wait("a")
    assert {len(message) for _, _, message, _, _ in heard.of("ended")} == {MESSAGE_LIMIT}


def test_details_get_their_share_of_the_time_and_no_more() -> None:
    allowance = Allowance(0.0)
    assert allowance.has_some(0.0), "a start is granted"
    allowance.spend(MOST_SAVED + 1.0)
    assert not allowance.has_some(0.99 / SHARE)
    assert allowance.has_some(1.01 / SHARE)
    assert allowance.has_some(10_000.0)
    allowance.spend(MOST_SAVED)
    assert not allowance.has_some(10_000.0), "no more is saved up than that"


def test_a_digest_is_that_of_the_content() -> None:
    def of(spec: dict[str, Any] | None = None, **metadata: Any) -> str:
        return digest(make_pod_info(pod("a", spec, **metadata), Cache().classes).cls)

    assert of() == of(), "in another process, too"
    assert of() != of({"nodeSelector": {"zone": "a"}})
    assert of() != of(labels={"app": "web"})
