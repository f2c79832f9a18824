"""Repeat recorded decisions, each in the state in which it was made.

    checkpoint --restore--> state --changes up to the decision's revision--> decide --> compare
                              ^                                                  |
                              '---- the pod on its recorded node <---------------'

A decision depends on the objects up to a revision, on assumed pods, and on the random source. All
are in the recording, so each decision is repeated by the same code, and must have the same result:
node, numbers of evaluated and feasible nodes, scores, message, preemption. A different result is
reported, and the recorded one is used for the next decisions.

A checkpoint belongs to one state; a term builds another state for another configuration. Decisions
of a state without a checkpoint, before it, or with extenders are not repeated, and neither are
those on pods in queues: what quota permitted, and its victims, are not recorded.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import groupby
from typing import Any, Final

from google.protobuf import json_format

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, object_key, seconds_of
from podsched.config.load import SchedulerConfiguration
from podsched.framework.local_queues import local_queue
from podsched.framework.plugin import CycleState, PluginFactory
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import error
from podsched.lab.memory_cluster import MemoryCluster
from podsched.lab.replay.recording import Change, Recording
from podsched.lab.replay.simulation import VirtualTimeLoop, run_in_virtual_time, scheduling_loop
from podsched.serve.client.informer import Event, EventType
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.term.checkpoint import restore
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.outcomes import ERROR, GONE, OVERTAKEN, REJECTED, SCHEDULED, UNSCHEDULABLE
from podsched.term.cycle.preemption import SEEN_WITHIN, Preemption
from podsched.term.state import SchedulingState, build_state
from podsched.term.writes.bind_queue import Assignment
from podsched.v1 import api_pb2
from podsched.v1.decisions_pb2 import DecisionRecord

#: How a pod with a node loses it again.
_UNDONE: Final = (ERROR, REJECTED, OVERTAKEN, GONE)
#: Seconds after which a pod is bound or back in the queue, so that the objects show what a missing
#: decision did. The last decisions of a recording are missing, as their outcomes are not known yet.
CONFIRMED_WITHIN: Final = 5.0
_MISSING: Final = "soon after a decision that is missing"
_CLAIMS: Final = "with claims, soon after others got claims in a way that is not recorded"
_UNKNOWN: Final = (
    "soon after a checkpoint, while claims were written or pods bound that were deleted meanwhile"
)
#: The fields whose values matter for later decisions.
_LASTING: Final = frozenset({"node_name", "nominated_node", "victims"})
#: A part of such a decision may have known of these changes.
_CHANGED: Final = "different without the changes that came while they were made"
#: Seconds of virtual time between two decisions: enough for details of each to be kept.
_STEP: Final = 100.0


#: Random numbers that are drawn at most: some 15 s. A preemption draws one.
_MOST_DRAWS: Final = 100_000_000


class NotRepeatable(ValueError):
    """The recording lacks the input of decisions."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A decision with a different result: the recorded and the repeated value of each field."""

    number: int
    pod: str
    fields: Mapping[str, tuple[Any, Any]]

    def __str__(self) -> str:
        parts = (f"{name}: {was!r} is now {now!r}" for name, (was, now) in self.fields.items())
        return f"decision {self.number} on pod {self.pod}: {'; '.join(parts)}"


@dataclass(slots=True)
class Verdict:
    """The result: numbers of repeated and skipped decisions, with reasons, and differences."""

    repeated: int = 0
    pods: int = 0
    #: Repeated decisions that chose a node, that preempt, and that have recorded scores of nodes.
    placed: int = 0
    preempting: int = 0
    scored: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    mismatches: list[Mismatch] = field(default_factory=list)


#: Reads from a checkpoint the configuration with which its decisions were made.
ConfigOf = Callable[[Mapping[str, Any]], SchedulerConfiguration]


def repeat(
    recording: Recording, config_of: ConfigOf, factories: Mapping[str, PluginFactory]
) -> Verdict:
    """Repeat all recorded decisions. Raises NotRepeatable."""
    if not recording.checkpoints or not recording.decisions:
        raise NotRepeatable("no decisions of a leader were recorded")
    return run_in_virtual_time(_repeat(recording, config_of, factories))


async def _repeat(
    recording: Recording, config_of: ConfigOf, factories: Mapping[str, PluginFactory]
) -> Verdict:
    verdict = Verdict()
    uids = set[str]()
    checkpoints = {_state_of(checkpoint): checkpoint for checkpoint in recording.checkpoints}
    configs = {state: config_of(document) for state, document in checkpoints.items()}
    recorded = {
        state: _Recorded(recording.known_to(document)) for state, document in checkpoints.items()
    }
    states: dict[tuple[int, int], _Repetition] = {}
    before: list[DecisionRecord] = []
    for _, together in groupby(records_of(recording), key=_decided_together):
        records = list(together)
        record = records[0]
        state = record.term, record.begun_after
        checkpoint = checkpoints.get(state)
        if checkpoint is None:
            why = "of a term, or part of one, that the recording has no checkpoint of"
            verdict.left_out[why] += len(records)
        elif configs[state].extenders:
            verdict.left_out["extenders took part, who cannot be asked again"] += len(records)
        elif record.number <= checkpoint.get("number", 0):
            verdict.left_out["before the checkpoint"] += len(records)
            since = checkpoint.get("number", 0)
            before += (r for r in records if r.outcome in _UNDONE and r.ended_after >= since)
        elif record.revision > recording.last_revision or not recorded[state].has(record):
            verdict.left_out["after the end of the recording"] += len(records)
        else:
            if state not in states:
                try:
                    states[state] = _Repetition(
                        recorded[state], checkpoint, configs[state], factories, verdict
                    )
                except (AttributeError, LookupError, TypeError, ValueError) as error:
                    why = f"the checkpoint does not fit the objects: {error!r}"
                    raise NotRepeatable(why) from error
                states[state].decided_before(r for r in before if (r.term, r.begun_after) == state)
            await states[state].repeat(records)
            uids.update(record.uid for record in records)
    verdict.pods = len(uids)
    return verdict


def _decided_together(record: DecisionRecord) -> tuple[Any, ...]:
    """Return what the records of one decision share: of a pod, or of the members of a group."""
    if not record.pod_group:
        return record.term, record.number
    time = record.decided_time
    based_on = record.revision, record.beyond
    return record.term, record.pod_group, time.seconds, time.nanos, *based_on


def _state_of(checkpoint: Mapping[str, Any]) -> tuple[int, int]:
    return checkpoint.get("term", 0), checkpoint.get("begun_after", 0)


def records_of(recording: Recording) -> list[DecisionRecord]:
    """Return the decisions in their order, each once, with its last known outcome."""
    found: dict[tuple[int, int], DecisionRecord] = {}
    for document in recording.decisions:
        try:
            record = json_format.ParseDict(dict(document), DecisionRecord())
        except json_format.ParseError as error:
            why = str(error).partition("\n")[0]
            raise NotRepeatable(f"a decision cannot be read: {why}") from error
        if record.draws > _MOST_DRAWS:
            raise NotRepeatable(f"decision {record.number}: {record.draws:,} random numbers drawn")
        known = found.get((record.term, record.number))
        if known is None or not known.outcome:
            found[record.term, record.number] = record
    return [found[key] for key in sorted(found)]


class Collector:
    """A ``DecisionSink`` that keeps the results of the last attempt.

    ``found``: by the pod's uid, and then by the record's field names.
    """

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def numbers(self, pods: int) -> int:
        return pods

    def put(self, entry: tuple[Any, ...], pods: int = 0) -> None:
        if entry[0] == "decided":
            for _, _, _, uid, _, cls, evaluated, feasible, node, total, _, more in entry[2]:
                self.found.setdefault(uid, {}).update(
                    pod_class=cls,
                    evaluated_nodes=evaluated,
                    feasible_nodes=feasible,
                    node_name=node,
                    total=total,
                    scores=[tuple(score) for score in (more or {}).get("scores", ())],
                    tied_nodes=(more or {}).get("tied_nodes", 0),
                )
        elif entry[0] == "ended":
            _, uid, outcome, message, _, more = entry
            extra = {name: (more or {}).get(name) for name in ("nominated_node", "victims")}
            self.found.setdefault(uid, {}).update(outcome=outcome, message=message, **extra)


class _Recorded:
    """The objects as of the changes that were read so far."""

    def __init__(self, recording: Recording) -> None:
        self._changes = recording.changes
        self._revisions = [change.revision for change in recording.changes]
        self.objects: dict[tuple[str, str], AnyObject] = {
            (kind_of(item).name, object_key(item)): item for item in recording.objects
        }
        self._at = 0

    def has(self, record: DecisionRecord) -> bool:
        """Whether the changes that a decision knew beyond its revision are all there."""
        end = bisect_right(self._revisions, record.revision) + record.beyond
        return end <= len(self._revisions)

    def until(self, revision: int, beyond: int) -> Iterator[tuple[AnyObject | None, Change]]:
        """Read the next changes up to a revision; yield each with the object before it."""
        end = bisect_right(self._revisions, revision) + beyond
        while self._at < min(end, len(self._changes)):
            change = self._changes[self._at]
            self._at += 1
            name = change.kind, change.key
            old = self.objects.get(name)
            if change.type is not EventType.DELETED:
                self.objects[name] = change.item
            elif old is not None:
                del self.objects[name]
            yield old, change


class _Repetition:
    """One state's decisions."""

    def __init__(
        self,
        recorded: _Recorded,
        checkpoint: Mapping[str, Any],
        config: SchedulerConfiguration,
        factories: Mapping[str, PluginFactory],
        verdict: Verdict,
    ) -> None:
        self._verdict = verdict
        self._recorded = recorded
        #: A heap of pods that lose their node again: the last decision before that, and the uid.
        self._undone: list[tuple[int, str]] = []
        self._group: tuple[Any, ...] = ()
        self._number: int = checkpoint["number"]
        self._unsure_until, self._unsure = 0.0, _MISSING
        #: Until then it is not known which volumes and devices are assumed.
        self._claims_unsure_until = 0.0
        self._collector = Collector()
        self._queued: dict[str, QueuedPodInfo] = {}
        meter = CycleMeter(MetricRegistry(), Tracer())
        # No listener: records say when the place of a pod that is deleted while assumed is free.
        self._state = build_state(config, factories, seed=checkpoint["seed"], meter=meter.plugins)
        if checkpoint["draws"] > _MOST_DRAWS:
            raise ValueError(f"{checkpoint['draws']:,} random numbers drawn")
        for _ in self._recorded.until(checkpoint["revision"], checkpoint["beyond"]):
            pass
        under_way = restore(self._state, checkpoint, list(self._recorded.objects.values()))
        self._decider = self._state.decider()
        self._decider.rotation = checkpoint["rotation"]
        running = asyncio.get_running_loop()
        assert isinstance(running, VirtualTimeLoop)
        self._clock = running
        # Nothing is ever sent there: tasks of this loop have no turn.
        cluster = MemoryCluster(self._clock.time)
        fence = api_pb2.Fence(lock="replay", term=checkpoint["term"])
        self._loop = scheduling_loop(
            self._state, cluster, fence, self._decider, meter, decisions=self._collector
        )
        self._loop.evictor.under_way += under_way
        if any(_is_unknown(self._state, uid) for uid in checkpoint["assumed"]):
            self._number, self._unsure = -1, _UNKNOWN
        #: When preemptions began; those of the checkpoint count from the first decision after it.
        self._evicting: list[tuple[Preemption, float]] = []

    def _take(self, revision: int, beyond: int) -> bool:
        """Apply the changes until then; return whether there are any."""
        changed = False
        for old, change in self._recorded.until(revision, beyond):
            changed = True
            deleted = change.type is EventType.DELETED
            if deleted and old is None:
                continue
            new = None if deleted else change.item
            type_ = change.type if deleted or old is not None else EventType.ADDED
            self._state.apply(Event(type_, change.kind, change.key, old, new), 0.0)
        self._state.revision, self._state.beyond = revision, beyond
        return changed

    def decided_before(self, records: Iterable[DecisionRecord]) -> None:
        """Note which pods that are assumed as of the checkpoint lose their node later."""
        for record in records:
            heappush(self._undone, (record.ended_after, record.uid))

    async def repeat(self, records: Sequence[DecisionRecord]) -> None:
        """Repeat a decision, and compare it; then continue with the recorded result.

        ``records``: of one pod, or of the members of a pod group in their order.
        """
        first = records[0]
        self._go_to(records)
        queued = [
            self._dequeued(info, record, place)
            for place, record in enumerate(records)
            if (info := self._pod_of(record)) is not None
        ]
        nominator = self._state.cache.nominator
        nominated = {record.uid: nominator.node_of(record.uid) for record in records}
        in_queue = any(map(self._is_in_queue, queued))
        if queued and not in_queue:
            self._clock.advance(_STEP)
            await self._loop.schedule(queued, self._clock.time())
        changed = self._take(first.revision, first.beyond)
        differing = {record.uid: self._differing(record) for record in records}
        reads_claims = any(_has_claims(one.info) for one in queued)
        for record in records:
            why = self._why_not(record, reads_claims)
            if why or in_queue:
                self._verdict.left_out[why or "on pods in queues"] += 1
            else:
                self._compare(record, differing[record.uid], changed)
        for record in records:
            self._apply_outcome(record, nominated[record.uid])
        if any(_LASTING & fields.keys() for fields in differing.values()):
            for preemption in self._new_evictions():
                self._loop.evictor.end(preemption)
        self._note_evictions(seconds_of(first.decided_time))

    def _go_to(self, records: Sequence[DecisionRecord]) -> None:
        """Bring the state to that in which a decision began."""
        first = records[0]
        if first.began_revision:
            self._take(first.began_revision, first.began_beyond)
        else:
            self._take(first.revision, first.beyond)
        while self._undone and self._undone[0][0] < first.number:
            self._undo(heappop(self._undone)[1])
        for record in records:
            if record.uid in self._state.cache.assumed:
                self._undo(record.uid)
        self._set_random_state(first)
        self._end_evictions(seconds_of(first.decided_time))
        # No binding and no eviction ends here; a group that is being taken back is not decided for.
        self._loop.taking_back.under_way.clear()
        self._loop.group_outcomes.binding = {first.pod_group} if first.pod_group_binding else set()
        self._collector.found = {}

    def _pod_of(self, record: DecisionRecord) -> PodInfo | None:
        info = self._state.cache.cluster.pods.get(f"{record.namespace}/{record.name}")
        return info if info is not None and info.uid == record.uid else None

    def _is_in_queue(self, queued: QueuedPodInfo) -> bool:
        cluster, pod = self._state.cache.cluster, queued.info
        return cluster.get("LocalQueue", pod.namespace, local_queue(cluster, pod)) is not None

    def _dequeued(self, info: PodInfo, record: DecisionRecord, place: int) -> QueuedPodInfo:
        """Take a pod out of the queue; ``place``: among the members of its group."""
        self._state.queue.delete(info, 0.0, bound_to=info.nominated_node_name)
        queued = QueuedPodInfo(info, 0.0, attempts=record.attempt, sequence=place)
        self._queued[record.uid] = queued
        return queued

    def _note_evictions(self, decided: float) -> None:
        self._evicting += [(preemption, decided) for preemption in self._new_evictions()]

    def _new_evictions(self) -> list[Preemption]:
        known = {id(preemption) for preemption, _ in self._evicting}
        return [one for one in self._loop.evictor.under_way if id(one) not in known]

    def _end_evictions(self, decided: float) -> None:
        """End evictions when the evictor did, because its tasks do not run here."""
        self._note_evictions(decided)
        for preemption, began in self._evicting:
            if decided - began >= SEEN_WITHIN:
                self._loop.evictor.end(preemption)
        self._evicting = [one for one in self._evicting if decided - one[1] < SEEN_WITHIN]

    def _why_not(self, record: DecisionRecord, reads_claims: bool) -> str:
        """Return why the state of a decision is not known, "" if it is."""
        decided = seconds_of(record.decided_time)
        if record.number != self._number + 1:
            self._unsure_until = decided + CONFIRMED_WITHIN
            if self._number >= 0:
                self._unsure = _MISSING
        self._number = record.number
        if decided < self._unsure_until:
            return self._unsure
        return _CLAIMS if reads_claims and decided < self._claims_unsure_until else ""

    def _set_random_state(self, record: DecisionRecord) -> None:
        """Set the state of the random source, which is recorded per run of pods."""
        time = record.decided_time
        group = (record.rotation, record.draws, record.profile, time.seconds, time.nanos)
        if group != self._group:
            self._group = group
            self._decider.rotation = record.rotation
            self._state.chance.go_to(record.draws)

    def _differing(self, record: DecisionRecord) -> dict[str, tuple[Any, Any]]:
        """Return the recorded and the repeated value of each field that is not the same."""
        found, differing = self._collector.found.get(record.uid, {}), {}
        for name, was in recorded_fields(record).items():
            if name in ("scores", "tied_nodes") and not found.get("scores"):
                continue
            if found.get(name) != was:
                differing[name] = (was, found.get(name))
        return differing

    def _compare(
        self, record: DecisionRecord, differing: Mapping[str, tuple[Any, Any]], changed: bool
    ) -> None:
        """Count a decision as the same or not; ``changed``: whether objects did meanwhile."""
        verdict = self._verdict
        if differing and changed:
            verdict.left_out[_CHANGED] += 1
            return
        verdict.repeated += 1
        verdict.placed += bool(record.node_name)
        verdict.preempting += bool(record.victims)
        verdict.scored += bool(record.scores)
        if differing:
            name = f"{record.namespace}/{record.name}"
            verdict.mismatches.append(Mismatch(record.number, name, differing))

    def _apply_outcome(self, record: DecisionRecord, nominated: str) -> None:
        """Bring the state to that after the recorded decision.

        ``nominated``: the node that the pod was nominated to before it.
        """
        cache, uid = self._state.cache, record.uid
        # A member of a group that does not start has a node, but is not assumed.
        node_name = "" if record.outcome == UNSCHEDULABLE else record.node_name
        if uid in cache.assumed and cache.held[uid].info.node_name != node_name:
            self._undo(uid)
        info = self._pod_of(record)
        if info is not None and node_name and uid not in cache.held:
            cache.assume(info, node_name)
            if _has_claims(info):
                # No plugin has assumed them.
                self._claims_unsure_until = seconds_of(record.decided_time) + CONFIRMED_WITHIN
        if uid not in cache.assumed:
            found = self._collector.found.get(uid, {}).get("nominated_node") or ""
            if info is not None and found != record.nominated_node:
                # A record does not tell whether a former nomination stays. Objects soon do.
                cache.nominator.delete(uid)
                if node_name := record.nominated_node or nominated:
                    cache.nominate(info, node_name)
            return
        if record.outcome in _UNDONE:
            heappush(self._undone, (record.ended_after, uid))
        elif record.outcome == SCHEDULED:
            cache.finish_binding(uid)

    def _undo(self, uid: str) -> None:
        """Undo an assumption, as the binding cycle did."""
        if uid not in self._state.cache.assumed:
            return
        pod = self._state.cache.held[uid].info
        queued = self._queued.get(uid) or QueuedPodInfo(pod, 0.0)
        assignment = Assignment(queued, pod.node_name, CycleState())
        self._loop.binding.outcomes.bind_failed(assignment, error("as recorded"))


def _is_unknown(state: SchedulingState, uid: str) -> bool:
    """Return whether a checkpoint does not tell all that is assumed for a pod.

    What plugins have assumed of its volumes and devices is not there, and nothing of a pod that was
    deleted meanwhile.
    """
    held = state.cache.held.get(uid)
    return held is None or _has_claims(held.info)


def _has_claims(pod: PodInfo) -> bool:
    spec = pod.pod.spec
    return bool(spec.resource_claims) or any(
        volume.HasField("persistent_volume_claim") or volume.HasField("ephemeral")
        for volume in spec.volumes
    )


def recorded_fields(record: DecisionRecord) -> dict[str, Any]:
    """Return the fields of a record that a repeated decision must equal."""

    def of(*names: str) -> dict[str, Any]:
        return {name: getattr(record, name) for name in names}

    fields = of("pod_class", "evaluated_nodes", "feasible_nodes", "node_name")
    fields["total"] = record.total if record.HasField("total") else None
    if record.scores:
        fields["scores"] = [(s.node_name, s.total, dict(s.plugins)) for s in record.scores]
        fields["tied_nodes"] = record.tied_nodes
    if record.outcome == UNSCHEDULABLE and not record.node_name:
        fields |= of("outcome", "message", "nominated_node", "victims")
    return fields
