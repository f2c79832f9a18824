"""Places in the queue, and counts, of jobs that have no PodGroup to write them to.

Such a job is a group without a PodGroup, or all the lone pods of a Job. When its pods are made
again, they take the job's place: the time at which its first pods were created or, if they were not
ready in time, at which they were evicted. A pod that belongs to no job is gone once it is evicted.

A condition of one waiting pod tells the next leader what the pods do not show by themselves. It is
no annotation, because users may write those.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from pydantic import FiniteFloat, NonNegativeInt, TypeAdapter

from podsched.api.owners import controller_of
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.framework.pods import PodInfo
from podsched.lib.groups import Groups
from podsched.queues.objects import Workload
from podsched.term.admission.units import Unit, is_lone

#: Condition of a pod; its message is the place of its job, as JSON.
PLACE: Final = "podsched.io/QueuePlace"
#: Max jobs that are remembered.
_MOST_JOBS: Final = 10_000


class _LonePod(NamedTuple):
    job: str
    created: float


class _Place(NamedTuple):
    """The times that order the pods of a job. Unix seconds.

    ``owner``: the uid of what controls the pods. ``late``: when they were last not ready in time,
    0.0 if never; ``times``: how often. ``goes_back``: they have not been evicted for another reason
    since then.
    """

    owner: str
    created: FiniteFloat
    late: FiniteFloat = 0.0
    times: NonNegativeInt = 0
    goes_back: bool = False


_READER: Final = TypeAdapter(_Place)
#: Of a job of which nothing is known.
_UNKNOWN: Final = _Place("", inf)


class _Jobs:
    """The jobs of units: the Job of a lone pod, named by namespace and uid, or the group itself."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self.lone: dict[str, _LonePod] = {}
        """By key of a lone pod of a Job."""
        self.waiting = Groups[str, str, None]()
        """By job, the keys of its lone pods that wait."""

    def update(self, unit: Unit) -> str | None:
        """Take in a changed unit; return the uid of what controls its pods, None for nothing."""
        key = unit.key
        former = self.lone.pop(key, None)
        if former is not None:
            self.waiting.drop(former.job, key)
        first = next(iter(unit.waiting.values() or unit.held.values()), None)
        owner = None if first is None else controller_of(first.pod.metadata)
        if first is None or owner is None:
            return None
        if is_lone(key) and owner.kind == "Job":
            # Anybody may write owner references, also to Jobs of other namespaces.
            job = f"{unit.namespace}/job:{owner.uid}"
            self.lone[key] = _LonePod(job, first.creation_time)
            if unit.waiting:
                self.waiting.put(job, key, None)
        return owner.uid

    def of(self, key: str) -> str:
        """Return the job of a unit; a lone pod that belongs to none stands for itself."""
        return self.lone[key].job if key in self.lone else key

    def has_place(self, key: str) -> bool:
        """Whether the place of a unit's job is kept here."""
        return not is_lone(self.of(key)) and stored_group(self._cluster, key) is None


class Places:
    """The places of all jobs without a PodGroup. Pure."""

    def __init__(self, cluster: ClusterView, *, by_creation: bool = False) -> None:
        """``by_creation``: pods that were not ready in time keep their place."""
        self._by_creation = by_creation
        self._jobs = _Jobs(cluster)
        #: By job; the least recently used one first.
        self._of: dict[str, _Place] = {}
        #: By job: the unit and the pod whose condition has the place, and its text.
        self._carriers: dict[str, tuple[str, str, str]] = {}
        self.unwritten: dict[str, tuple[PodInfo, str]] = {}
        """Pods, with the message of their condition ``PLACE``, by job; for who writes it."""
        self.moved: dict[str, None] = {}
        """The keys of units to be put at their place again."""

    def update(self, unit: Unit) -> None:
        """Take in a changed unit."""
        job = self._jobs.of(unit.key)
        owner = self._jobs.update(unit)
        if owner is not None and self._jobs.has_place(unit.key):
            self._learn(unit, owner)
        elif self._carriers.get(job, ("",))[0] == unit.key:
            # It is gone: another one has to tell the place.
            self.moved |= dict.fromkeys(islice(self._jobs.waiting.of(job), 1))

    def _learn(self, unit: Unit, owner: str) -> None:
        """Update the place of a unit's job from its pods."""
        key, pods = unit.key, (*unit.waiting.values(), *unit.held.values())
        created = min(pod.creation_time for pod in pods)
        place = self._place(key)
        if place.owner != owner:
            place = _Place(owner, created)
        known = place
        for text in filter(None, map(_said, pods)):
            place = _merged(place, _parse(text))
        place = place._replace(created=min(place.created, created))
        if place != known:
            # The other units of the job have another place now, too.
            job, lone = self._jobs.of(key), self._jobs.lone
            self.moved |= dict.fromkeys(k for k, one in lone.items() if one.job == job)
            self.moved.pop(key, None)
        self._keep(key, place)
        self._write(unit, place, created)

    def _place(self, key: str) -> _Place:
        return self._of.get(self._jobs.of(key), _UNKNOWN)

    # ------------------------------------------------------------------ not ready in time

    def count(self, key: str) -> int:
        """Return how often the job of a unit was not ready in time."""
        return self._place(key).times

    def is_late_again(self, key: str, begun: float) -> bool:
        """Whether pods that got their nodes at ``begun`` were not counted as late yet.

        Lone pods of a Job that ran already when it was last late are late with it: once.
        """
        return begun >= self._place(key).late

    def note_late(self, key: str, count: int, at: float) -> None:
        """Note that pods are evicted, for the ``count``-th time, since they were not ready in time.

        0: the job is deactivated. A Job is suspended then, and begins anew once it is resumed.
        """
        if not self._jobs.has_place(key):
            return
        place = self._place(key)
        # Whole seconds, as the times at which its next pods are created.
        self._keep(key, place._replace(late=float(int(at)), times=count, goes_back=count > 0))

    def note_eviction(self, key: str) -> None:
        """Note that a unit is evicted for another reason."""
        place = self._of.get(self._jobs.of(key))
        if place is not None:
            self._of[self._jobs.of(key)] = place._replace(goes_back=False)

    def late_at(self, key: str) -> float:
        """Return when the job of a lone pod was late before the pod was created; 0.0 if never."""
        late = self._place(key).late
        return late if key in self._jobs.lone and self._jobs.lone[key].created >= late else 0.0

    # ------------------------------------------------------------------ the order in the queue

    def put(self, workload: Workload) -> Workload:
        """Return a workload at the place of its job, if its pods are made again."""
        place = self._place(workload.key) if workload.job_uid else _UNKNOWN
        if not place.owner:
            return workload
        queued_at = place.created
        if place.goes_back and not self._by_creation:
            queued_at = max(queued_at, place.late)
        # Pods that waited already when others were late stay where they are.
        if queued_at < workload.queued_at:
            return replace(workload, queued_at=queued_at)
        return workload

    def _keep(self, key: str, place: _Place) -> None:
        name = self._jobs.of(key)
        self._of.pop(name, None)
        self._of[name] = place
        if len(self._of) > _MOST_JOBS:
            oldest = next(iter(self._of))
            del self._of[oldest]
            self._carriers.pop(oldest, None)

    # ------------------------------------------------------------------ for the next leader

    def _write(self, unit: Unit, place: _Place, created: float) -> None:
        """Have a place written to a waiting pod, unless a pod has it or the pods show it."""
        pod = next(iter(unit.waiting.values()), None)
        if pod is None or not (place.created < created or place.late):
            return
        job, text = self._jobs.of(unit.key), _text(place)
        carrier, uid, written = self._carriers.get(job, ("", "", ""))
        is_there = carrier in self._jobs.lone if carrier != unit.key else uid in unit.waiting
        if is_there and written == text:
            return
        self._carriers[job] = unit.key, pod.uid, text
        if _said(pod) != text:
            self.unwritten[job] = pod, text


def _merged(place: _Place, read: _Place | None) -> _Place:
    """Return what is known of a job, and what a pod's condition says of it."""
    if read is None or read.owner != place.owner:
        return place
    newer = read if read.late > place.late else place
    if read.late == place.late:
        # What one pod says may be older than an eviction for another reason.
        newer = place._replace(goes_back=place.goes_back and read.goes_back)
    return newer._replace(created=min(read.created, place.created))


def _said(pod: PodInfo) -> str:
    """Return the message of a pod's condition ``PLACE``, "" without one."""
    return next((c.message for c in pod.pod.status.conditions if c.type == PLACE), "")


def _text(place: _Place) -> str:
    return json.dumps(place._asdict(), separators=(",", ":"))


def _parse(text: str) -> _Place | None:
    """Return the place in a text; None if it cannot be read."""
    try:
        return _READER.validate_json(text)
    except ValueError:
        return None
