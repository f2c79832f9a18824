"""Reports decisions of the scheduling cycle to a sink, as tuples.

    decide --began--> ... --decided--> sink
    bound, failed, dropped ----------> sink      the outcome, by the pod's uid

The sink must be fast, because it is called between decisions. Scores of the runners-up and the
plugins' shares of the time are noted only while that costs less than SHARE of the time: always at
up to a few hundred pods per second.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision, ScoreDetails
from podsched.decide.runtime.run_log import RunLog
from podsched.framework.pods import PodClass, QueuedPodInfo
from podsched.lib.printable import shortened
from podsched.term.cycle.pod_reports import MESSAGE_LIMIT
from podsched.term.state import SchedulingState
from podsched.term.writes.bind_queue import Assignment

#: The max share of the time spent on details, and the max seconds of it that may be saved up.
SHARE, MOST_SAVED = 0.01, 0.03
#: The key of a class's digest in ``PodClass.compiled``.
_DIGEST = "decision digest"
#: Characters of a digest: 64 bits.
_DIGEST_LENGTH = 16


class DecisionSink(Protocol):
    """Takes entries; the first value of each is its type.

    ("term", facts): a term begins. ("bound", uids, now). ("ended", uid, outcome, message, now,
    more): ``more`` has further fields of the record, or is None. ("decided", common, pods), with
    common = (profile, term, revision, rotation, draws, popped, decided, seconds for each) and for
    each pod (number, namespace, name, uid, attempt, class digest, evaluated, feasible, node, total,
    queued, more). Times are monotonic seconds.
    """

    def numbers(self, pods: int) -> int:
        """Reserve numbers for ``pods`` decisions; return the number before the first of them."""

    def put(self, entry: tuple[Any, ...], pods: int = 0) -> None:
        """Take an entry about ``pods`` new decisions, or drop and count it."""


class Allowance:
    """Grants a share of the time that passes."""

    def __init__(self, now: float) -> None:
        self._saved, self._at = MOST_SAVED, now

    def has_some(self, now: float) -> bool:
        self._saved = min(MOST_SAVED, self._saved + SHARE * (now - self._at))
        self._at = now
        return self._saved > 0.0

    def spend(self, seconds: float) -> None:
        self._saved -= seconds


class DecisionNotes:
    """Notes the decisions of one term; without a sink, nothing."""

    def __init__(
        self,
        sink: DecisionSink | None,
        state: SchedulingState,
        decider: AcceleratedDecider,
        runs: RunLog,
        term: int,
        clock: Callable[[], float],
    ) -> None:
        self._sink = sink
        self._state = state
        self._decider = decider
        self._runs = runs
        self._term = term
        self._clock = clock
        self._allowance = Allowance(clock())
        #: As the decision began: the rotation, the draws, the state's revision and ``beyond``.
        self._before = 0, 0, 0, 0
        #: Number of the last decision before this state's.
        self.begun_after = 0
        self._detailed = self._follows = False

    def begin_term(self) -> None:
        """Note the state from which the term's decisions start, so that they can be replayed."""
        if self._sink is None:
            return
        self.begun_after = self._sink.numbers(0)
        facts = {
            "term": self._term,
            "revision": self._state.revision,
            "seed": self._state.chance.seed,
            "nodes_by_row": list(self._state.cache.columns.names),
        }
        self._sink.put(("term", facts))

    # ------------------------------------------------------------------ decisions

    def began(self, now: float) -> bool:
        """Note what is known before a decision; return whether to keep details of it."""
        if self._sink is None:
            return False
        self._decider.details = None
        state = self._state
        self._before = self._decider.rotation, state.chance.draws, state.revision, state.beyond
        self._detailed = self._allowance.has_some(now)
        # If runs are being recorded already, ``AttemptTraces`` does that.
        self._follows = self._detailed and self._runs.runs is None
        if self._follows:
            self._runs.follow()
        return self._detailed

    def decided(
        self,
        profile: str,
        decisions: Sequence[Decision],
        popped: float,
        began: float,
        now: float,
        *,
        group: str = "",
        group_is_binding: bool = False,
    ) -> None:
        """Note decisions that were made together since ``began``; ``group``: their PodGroup.

        ``group_is_binding``: whether members of it were being bound when the decision began.
        """
        if self._sink is None:
            return
        more, always = self._more(), self._of_all()
        if group:
            # The details are of the last pass over the members, not of these decisions.
            more, always = {}, {**always, "pod_group": group}
            if group_is_binding:
                always["pod_group_binding"] = True
        count = len(decisions)
        number = self._sink.numbers(count)
        based_on = self._state.revision, *self._before[:2]
        common = profile, self._term, *based_on, popped, now, (now - began) / max(count, 1)
        pods = []
        for at, decision in enumerate(decisions):
            queued = decision.queued
            info, cls = queued.info, queued.info.cls
            number += 1
            pods.append(
                (
                    number, cls.namespace, info.name, info.uid, queued.attempts,
                    cls.compiled.get(_DIGEST) or digest(cls),
                    decision.evaluated, decision.feasible, decision.node_name, decision.total,
                    queued.timestamp,
                    {**more.get(at, {}), **always} if always else more.get(at),
                )
            )  # fmt: skip
        self._sink.put(("decided", common, pods), count)

    def dropped(self) -> None:
        """Cancel ``began``: nothing was decided."""
        if self._follows:
            self._runs.take()

    def _of_all(self) -> dict[str, int | str]:
        """Return further facts about all decisions made now; usually there are none."""
        knows = self._state.revision, self._state.beyond
        facts = {"beyond": knows[1], "begun_after": self.begun_after}
        if self._before[2:] != knows:  # It has lasted.
            facts["began_revision"], facts["began_beyond"] = self._before[2:]
        return {name: number for name, number in facts.items() if number}

    def _more(self) -> dict[int, dict[str, Any]]:
        """Return the details by the decision's index, and count the time that they take.

        Of decisions about several groups that were made together, only the first gets them.
        """
        if not self._detailed:
            return {}
        self._detailed = False
        began, details = self._clock(), self._decider.details
        seconds: dict[str, float] = {}
        for run in self._runs.runs or ():
            seconds[run.plugin] = seconds.get(run.plugin, 0.0) + run.ended - run.began
        if self._follows:
            self._runs.take()
        at = 0
        more: dict[str, Any] = {"plugin_seconds": {n: round(s, 7) for n, s in seconds.items()}}
        if details is not None:
            at = details.place
            more |= score_fields(details.scores, self._state.cache.columns.names)
        # Timing the plugins costs about as much as this does.
        self._allowance.spend(2 * (self._clock() - began) + (details.seconds if details else 0.0))
        return {at: more}

    # ------------------------------------------------------------------ outcomes

    def bound(self, assignments: Sequence[Assignment], now: float) -> None:
        if self._sink is not None:
            self._sink.put(("bound", [a.queued.info.uid for a in assignments], now))

    def ended(
        self, queued: QueuedPodInfo, outcome: str, message: str = "", **more: str | int
    ) -> None:
        """Note the end of an attempt that did not bind its pod; ``more``: fields of the record."""
        if self._sink is not None:
            now, after = self._clock(), self._sink.numbers(0)
            facts, text = {**more, "ended_after": after}, shortened(message, MESSAGE_LIMIT)
            self._sink.put(("ended", queued.info.uid, outcome, text, now, facts))


def digest(cls: PodClass) -> str:
    """Return a digest of everything in a class that can influence a decision.

    It is the same in every process.
    """
    shared = cls.shape.compiled.get(_DIGEST)
    if shared is None:
        shared = cls.shape.compiled[_DIGEST] = hashlib.blake2b(digest_size=_DIGEST_LENGTH // 2)
        labels, owner = sorted(cls.labels.items()), cls.controller
        shared.update(repr((cls.namespace, labels, owner, cls.priority)).encode())
        parts = cls.spec_parts
        shared.update(parts.bare.SerializeToString(deterministic=True))
        shared.update(repr(parts.volumes).encode())
    content = shared.copy()
    content.update(repr(cls.spec_parts.amounts).encode())
    found: str = content.hexdigest()
    cls.compiled[_DIGEST] = found
    return found


def score_fields(details: ScoreDetails, names: Sequence[str]) -> dict[str, Any]:
    """Return a record's fields about scores; ``names``: of the nodes, by row."""
    scores = [(names[row], total, plugins) for row, total, plugins in details.rows]
    return {"scores": scores, "tied_nodes": details.ties}
