"""What units were promised in a random history, and whether it was kept or withdrawn for a reason.

A promise is read from the annotation of the stored PodGroup or pod. It may become earlier. It may
become later, or be gone while its unit waits, only after a withdrawal for a reason that the history
permits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from podsched.api.objects import Pod, PodGroup
from podsched.term.admission.reservation_text import RESERVATION, RESERVED
from podsched.testing.fake_cluster import FakeCluster
from support.term_world import WALL, TermWorld

#: Seconds for an admission once its time has come, and for what is told to be written.
_TOLERANCE: Final = 3.0
#: Parts of the texts on withdrawals, by the kind of what happened.
REASONS: Final[Mapping[str, tuple[str, ...]]] = {
    "node": ("is gone", "is unschedulable", "have no room", "takes what was reserved"),
    "quota": ("has less quota", "is stopped", "have no room", "takes what was reserved"),
    "priority": ("of higher priority", "takes what was reserved", "have no room"),
    "limit": ("runs for longer", "have no room"),
    "move": ("has moved",),
    "lone": ("in no queue", "have no room"),
}


class Promises:
    """See the module. Times are seconds since the begin of the history."""

    def __init__(self, cluster: FakeCluster, permitted: Iterable[str]) -> None:
        """``permitted``: the kinds of reasons, of ``REASONS``."""
        self._cluster = cluster
        self._texts = [text for kind in permitted for text in REASONS[kind]]
        #: By unit, the promised start; the texts of withdrawals since then, and until when they may
        #: have been told of what is not written yet.
        self._promised: dict[str, float] = {}
        self._withdrawn: dict[str, list[str]] = {}
        self._told_until: dict[str, float] = {}
        #: By unit, when it started since the last look: it may have been evicted at once.
        self._begun: dict[str, float] = {}
        self.made = self.kept = self.withdrawn = 0

    def listen(self, world: TermWorld) -> None:
        """Note the starts and the withdrawals that a leader reports."""
        record = world.recorder.record

        def recorded(about: Any, **event: Any) -> None:
            # A pod of a gang is called GANG-0, and may be gone already.
            name = about.name.partition("-")[0]
            if event["reason"] == "StartWithdrawn":
                self._withdrawn.setdefault(name, []).append(event["message"])
                self._told_until[name] = world.clock() + _TOLERANCE
            elif event["reason"] in ("Scheduled", "Admitted", "Preempted"):
                # A unit that is preempted at once by its lender has started, though none is bound.
                self._begun.setdefault(name, world.clock())
            record(about, **event)

        world.recorder.record = recorded  # type: ignore[method-assign]

    def look(self, now: float) -> None:
        """Compare what is promised with what was promised."""
        found, started = self._found()
        begun, self._begun = self._begun, {}
        started = {**begun, **started}
        for name in self._promised.keys() - found.keys() - started.keys():
            self._drop(name)  # Its pods are gone.
        for name in self._promised.keys() & started.keys():
            self._compare(name, started[name], f"started at {started[name]}")
            self.kept += name not in self._withdrawn
            self._drop(name)
        for name, start in found.items():
            if name in started:
                continue
            if name in self._promised:
                self._compare(name, now, "waits")
                self._compare(name, start, f"is promised {start}", exactly=True)
            if start != self._promised.get(name) or self._told_until.get(name, now) <= now:
                # Otherwise, what was told may not be written yet.
                self._withdrawn.pop(name, None)
            if start is None:
                self._drop(name)
            else:
                self.made += name not in self._promised
                self._promised[name] = start

    def _drop(self, name: str) -> None:
        self._promised.pop(name, None)
        self._withdrawn.pop(name, None)

    def _found(self) -> tuple[dict[str, float | None], dict[str, float]]:
        """Return what is promised to each unit that waits, and when the others started."""
        groups: dict[str, Any] = {}
        for group in self._cluster.objects("PodGroup"):
            assert isinstance(group, PodGroup)
            groups[group.metadata.name] = group
        found: dict[str, float | None] = {}
        started: dict[str, float] = {}
        for name, group in groups.items():
            for one in group.status.conditions:
                # Perhaps it has been evicted since.
                if one.type == RESERVED and one.reason == "Started":
                    started[name] = float(one.last_transition_time.seconds) - WALL
        for pod in self._cluster.objects("Pod"):
            assert isinstance(pod, Pod)
            name = _unit(pod)
            found[name] = _start(groups.get(name, pod))
            if pod.spec.node_name:
                begun = (
                    float(one.last_transition_time.seconds) - WALL
                    for one in pod.status.conditions
                    if one.type == "PodScheduled"
                )
                started[name] = min(started.get(name, float("inf")), *begun)
        return found, started

    def _compare(self, name: str, at: float | None, what: str, *, exactly: bool = False) -> None:
        """Check that a unit is not later than promised, unless the promise was withdrawn."""
        before = self._promised[name]
        late = at is None or at > before + (0.0 if exactly else _TOLERANCE)
        if not late:
            return
        texts = self._withdrawn.get(name, [])
        assert texts, f"{name} was promised {before}, and {what}"
        for text in texts:
            why = text.split("withdrawn: ")[1].split(". It ")[0]
            assert any(part in why for part in self._texts), f"{name}: {text}"
        self.withdrawn += 1


def _unit(pod: Any) -> str:
    return pod.spec.scheduling_group.pod_group_name or pod.metadata.name


def _start(holder: Any) -> float | None:
    text = holder.metadata.annotations.get(RESERVATION, "")
    if not text:
        return None
    return datetime.fromisoformat(json.loads(text)["start"]).timestamp() - WALL
