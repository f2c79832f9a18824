"""Acknowledged objects exist, deleted ones do not, and a pod is bound at most once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podsched.api.conditions import is_terminating
from podsched.api.objects import Pod
from podsched.lab.chaos.history import PODS, History, Violation, disrupted, node_of, replay
from podsched.lab.chaos.records import Call, Outcome

CREATED = "acknowledged create exists"
UNDONE = "what failed was not done"
DELETED = "acknowledged delete is done"
BOUND = "bound at most once, never moved"
BINDABLE = "bound only if nothing forbids it"
IDENTITY = "an object keeps its uid, and no other gets it"


@dataclass(slots=True)
class _Life:
    """The life of an object with one uid, in revisions; 0: that did not happen."""

    uid: str
    key: str
    born: int
    born_at: float
    gone: int = 0
    gone_at: float = 0.0
    last: Pod | None = None


def _lives(history: History) -> dict[str, _Life]:
    """Return the lives of all objects by uid."""
    lives: dict[str, _Life] = {}
    current: dict[str, str] = {}
    for revision in history.revisions:
        for change in revision.changes:
            if change.deleted:
                life = lives.get(current.pop(change.key, ""))
                if life is not None:
                    life.gone, life.gone_at = revision.number, revision.at
            elif change.uid:
                current[change.key] = change.uid
                life = lives.setdefault(
                    change.uid, _Life(change.uid, change.key, revision.number, revision.at)
                )
                life.last = change.object if isinstance(change.object, Pod) else None
    return lives


def acknowledged_creates(history: History) -> Iterator[Violation]:
    """Find objects whose creation was acknowledged, and which do not exist but should."""
    lives = _lives(history)
    # Batches are answered with revisions, single creations with the object.
    born = {(life.key, life.born): life for life in lives.values()}
    removals, evicted = _removals(history.calls), _evicted(history)
    for call in history.calls:
        if call.verb != "create" or call.outcome is not Outcome.OK:
            continue
        life = lives.get(call.uid) if call.uid else born.get((call.key, call.revision))
        if life is None:
            others = [number for key, number in born if key == call.key]
            # Members of an etcd that has lost a write do not agree on revisions any more.
            stored = f"stored at {others[0]} instead" if others else "never stored"
            text = f"{call.key} was acknowledged at revision {call.revision} and {stored}"
            yield Violation(CREATED, text, call.answered, call.revision, (call.key,))
        elif life.gone and not (_may_go(life, removals) or (life.key, life.gone) in evicted):
            text = f"{call.key} is gone since revision {life.gone}, but was not deleted"
            yield Violation(CREATED, text, life.gone_at, life.gone, (call.key,))


def failed_creates(history: History) -> Iterator[Violation]:
    """Find objects that are stored although their only creation has failed."""
    asked: dict[str, set[Outcome]] = defaultdict(set)
    for call in history.calls:
        if call.verb == "create":
            asked[call.key].add(call.outcome)
    for life in _lives(history).values():
        if asked.get(life.key) == {Outcome.FAILED}:
            text = f"{life.key} is stored although its creation failed"
            yield Violation(UNDONE, text, life.born_at, life.born, (life.key,))


def _removals(calls: Sequence[Call]) -> Mapping[str, Sequence[Call]]:
    """Return the deletions and evictions that happened, or may have, by key."""
    found: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.verb in ("delete", "evict") and call.outcome is not Outcome.FAILED:
            found[call.key].append(call)
    return found


def _evicted(history: History) -> set[tuple[str, int]]:
    """Return the keys of pods that a leader has evicted, with the revisions of these evictions.

    A pod that was preempted while it was being bound has no node, so it is deleted at once, without
    a trace of the reason.
    """
    return {
        (PODS + pod, revision)
        for call in history.writes
        if call.method == "EvictPods"
        for pod in call.pods
        for revision in call.revisions
    }


def _may_go(life: _Life, removals: Mapping[str, Sequence[Call]]) -> bool:
    if life.last is not None and disrupted(life.last):
        return True  # by a rule: preemption, a taint, garbage collection
    return any(
        removal.uid in ("", life.uid) and removal.invoked <= life.gone_at
        for removal in removals.get(life.key, ())
    )


def acknowledged_deletes(history: History) -> Iterator[Violation]:
    """Find objects whose deletion was acknowledged, but that still exist."""
    lives = _lives(history)
    for call in history.calls:
        if call.verb not in ("delete", "evict") or call.outcome is not Outcome.OK:
            continue
        life = lives.get(call.uid)
        if life is None or life.gone or (life.last is not None and is_terminating(life.last)):
            continue
        text = f"{call.key} was deleted at {call.answered:.3f} s and is still there"
        yield Violation(DELETED, text, call.answered, call.revision, (call.key,))


def bound_once(history: History) -> Iterator[Violation]:
    """Find pods whose node changed or was removed."""
    for moment in replay(history):
        for change in moment.pods:
            before, after = node_of(change.before), node_of(change.after)
            if change.after is None or not before or after == before:
                continue
            text = f"pod {change.key} was moved from {before} to {after or 'no node'}"
            yield moment.violation(BOUND, text, PODS + change.key)


def bindable(history: History) -> Iterator[Violation]:
    """Find pods that got a node although they were gated or being deleted."""
    for moment in replay(history):
        for change in moment.pods:
            before = change.before
            if not change.bound or before is None:
                continue
            forbidden = {
                "is held back by scheduling gates": bool(before.spec.scheduling_gates),
                "is being deleted": is_terminating(before),
            }
            for why in (text for text, holds in forbidden.items() if holds):
                text = f"pod {change.key} was bound although it {why}"
                yield moment.violation(BINDABLE, text, PODS + change.key)


def identities(history: History) -> Iterator[Violation]:
    """Find objects whose uid changed without a deletion, and uids that were used twice."""
    current: dict[str, str] = {}
    gone: set[str] = set()
    for revision in history.revisions:
        for change in revision.changes:
            before = current.get(change.key, "")
            if change.deleted:
                gone.add(current.pop(change.key, ""))
            elif change.uid and change.uid != before:
                text = ""
                if before:
                    text = f"{change.key} has become {change.uid} and was not deleted as {before}"
                elif change.uid in gone:
                    text = f"{change.key} is there again as {change.uid}, which was deleted"
                current[change.key] = change.uid
                if text:
                    yield Violation(IDENTITY, text, revision.at, revision.number, (change.key,))
