"""Histories that are made by hand, for the checker."""

from __future__ import annotations

from typing import Any

from podsched.lab.chaos.history import VERSION, History, history_of
from podsched.lab.chaos.records import (
    Begin,
    BudgetFact,
    Call,
    Change,
    ClaimFact,
    End,
    FaultMark,
    FencedWrite,
    NodeFact,
    Outcome,
    PodFact,
    PreemptionFact,
    Record,
    Revision,
    Settled,
)

LOCK = "kube-system/kube-scheduler"


class Story:
    """A history, told step by step; each step takes 10 ms and, in etcd, one revision."""

    def __init__(self, within: float = 30.0) -> None:
        self._records: list[Record] = [Begin(version=VERSION, seed=7, within=within)]
        self._now = 0.0
        self._revision = 100
        self._pods: dict[str, tuple[str, PodFact]] = {}

    @property
    def history(self) -> History:
        return history_of(self._records)

    @property
    def records(self) -> list[Record]:
        return self._records

    @property
    def revision(self) -> int:
        return self._revision

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def add(self, record: Record) -> None:
        self._records.append(record)

    def stored(self, *changes: Change) -> int:
        """A revision; returns its number."""
        self._now += 0.01
        self._revision += 1
        self.add(Revision(at=self._now, number=self._revision, changes=changes))
        return self._revision

    # ------------------------------------------------------------------ objects

    def node(self, name: str = "node-1", cpu: str = "4", **fields: Any) -> None:
        room = {"cpu": cpu, "pods": "110"}
        self.stored(
            Change(key=f"nodes/{name}", uid=name, node=NodeFact(allocatable=room, **fields))
        )

    def pod(
        self, name: str, cpu: str = "1", *, outcome: Outcome = Outcome.OK, **fields: Any
    ) -> str:
        """A pod that a client creates, and is told of that; returns its uid."""
        uid = f"uid-{name}-{self._revision}"
        fact = PodFact(requests={"cpu": cpu, "pods": "1"}, **fields)
        self._pods[name] = (uid, fact)
        self.stored(self._change(name))
        self.call("create", name, uid=uid, outcome=outcome)
        return uid

    def becomes(self, name: str, **fields: Any) -> int:
        """A pod changes; returns the revision."""
        uid, fact = self._pods[name]
        self._pods[name] = (uid, fact.model_copy(update=fields))
        return self.stored(self._change(name))

    def gone(self, name: str) -> None:
        self._pods.pop(name)
        self.stored(Change(key=f"pods/default/{name}", deleted=True))

    def _change(self, name: str) -> Change:
        uid, fact = self._pods[name]
        return Change(key=f"pods/default/{name}", uid=uid, pod=fact)

    def claim(self, name: str, *, exclusive: bool) -> None:
        key = f"persistentvolumeclaims/default/{name}"
        self.stored(Change(key=key, uid=name, claim=ClaimFact(exclusive=exclusive)))

    def evicts(self, name: str, *, desired: int) -> None:
        """An eviction that the budget of pods with app=web counts."""
        uid, fact = self._pods[name]
        self._pods[name] = (uid, fact.model_copy(update={"deleting": True}))
        budget = BudgetFact(match_labels={"app": "web"}, desired=desired, disrupted=(name,))
        key = "poddisruptionbudgets/default/web"
        self.stored(self._change(name), Change(key=key, uid="web", budget=budget))

    def preempted_event(self, victim: str, preemptor: str) -> None:
        fact = PreemptionFact(victim=victim, preemptor=preemptor)
        self.stored(Change(key="events/default/e", uid="e", preemption=fact))

    # ------------------------------------------------------------------ everything else

    def call(self, verb: str, name: str, *, uid: str = "", outcome: Outcome = Outcome.OK) -> None:
        self._now += 0.01
        self.add(
            Call(
                client="c",
                verb=verb,
                key=f"pods/default/{name}",
                uid=uid,
                invoked=self._now - 0.01,
                answered=self._now,
                outcome=outcome,
                revision=self._revision,
            )
        )

    def term(self, holder: str = "s0_1") -> int:
        """A replica acquires the lock; returns the term."""
        return self.stored(Change(key=f"terms/{LOCK}", holder=holder))

    def released(self) -> None:
        self.stored(Change(key=f"terms/{LOCK}", deleted=True))

    def wrote(
        self, term: int, pod: str, *revisions: int, method: str = "BindPods", **fields: Any
    ) -> None:
        """An API server says what it wrote for a term; without revisions: nobody heard of it."""
        self.add(
            FencedWrite(
                at=self._now,
                server="apiserver-0",
                method=method,
                lock=LOCK,
                term=term,
                pods=(f"default/{pod}",),
                revisions=revisions,
                unheard=not revisions,
                **fields,
            )
        )

    def fault(self, seconds: float = 1.0) -> None:
        self.add(FaultMark(at=self._now, number=1, name="kill-leader", what="SIGKILL"))
        self._now += seconds
        self.add(FaultMark(at=self._now, number=1, name="kill-leader", ends=True))

    def settles(self, **assumed: int) -> None:
        self.add(Settled(at=self._now, assumed=assumed))

    def ends(self, **fields: Any) -> None:
        self.add(End(at=self._now, **fields))


def good_story() -> Story:
    """Pods come, are bound, change leaders, are preempted, evicted and deleted: all as promised."""
    story = Story()
    story.node("node-1", cpu="4")
    story.node("node-2", cpu="4")
    first = story.term("s0_1")
    uid = story.pod("web", priority=10, labels={"app": "web"})
    story.wrote(first, "web", story.becomes("web", node="node-1", ready=True))
    story.pod("other", labels={"app": "web"})
    story.wrote(first, "other", story.becomes("other", node="node-2", ready=True))
    story.fault()
    second = story.term("s1_2")
    story.claim("data", exclusive=True)
    story.pod("low", cpu="3", claims=("data",))
    story.wrote(second, "low", story.becomes("low", node="node-1"))
    high = story.pod("high", cpu="3", priority=100, ports=(("0.0.0.0", "TCP", 80),))
    victim = story._pods["low"][0]
    story.wrote(
        second, "low", story.becomes("low", deleting=True, disrupted="PreemptionByScheduler")
    )
    story.preempted_event(victim, high)
    story.gone("low")
    story.wrote(second, "high", story.becomes("high", node="node-1"))
    story.evicts("other", desired=1)
    story.call("evict", "other")
    story.gone("other")
    story.call("delete", "web", uid=uid)
    story.gone("web")
    story.wait(40)
    story.settles(s0=0, s1=0)
    story.ends(exit_codes={"scheduler-0": 0})
    return story
