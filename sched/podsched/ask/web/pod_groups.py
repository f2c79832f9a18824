"""PodGroups as the page shows them: one line for all members.

A pod is a member if its ``spec.schedulingGroup`` names the group. Members that have ended no longer
count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from podsched.api.columns import group_status
from podsched.api.conditions import POD_GROUP_SCHEDULED, TRUE, condition_of
from podsched.api.objects import PodGroup, seconds_of
from podsched.ask.web.rows import DecisionRow, PendingRow, PodRow, cut
from podsched.lib.counted import counted
from podsched.lib.groups import Grouped

SCHEDULED = "Scheduled"
WAITING_FOR_MEMBERS = "Waiting for members"
WAITING_FOR_GROUP = "Waiting for its PodGroup"


@dataclass(frozen=True, slots=True)
class PodGroupRow:
    """A PodGroup object. state: as ``kubectl get`` shows it; since: Unix time of its creation.

    scheduled: whether its condition PodGroupScheduled is True; min_count: 0 for the policy basic.
    """

    since: float
    priority: int
    min_count: int
    scheduled: bool
    state: str
    message: str

    @property
    def policy(self) -> str:
        return f"gang of at least {self.min_count:,}" if self.min_count else "basic"


@dataclass(frozen=True, slots=True)
class PendingGroupRow(PendingRow):
    """A group in a list of pods. reason: the group's state; since: 0.0 if that is unknown.

    nominated: how many nodes its members are nominated to; policy: "" without a PodGroup.
    """

    with_node: int
    members: int
    policy: str


@dataclass(frozen=True, slots=True)
class PodGroupLine:
    """A group with its members."""

    row: PendingGroupRow
    waits: bool
    decision: DecisionRow | None


def line_key(group: str) -> str:
    """Return the key of a group's line, which is not a pod's key."""
    return f"PodGroup {group}"


def pod_group_row(group: PodGroup) -> PodGroupRow:
    """Return what the page shows of a PodGroup object."""
    policy = group.spec.scheduling_policy
    condition = condition_of(group.status, POD_GROUP_SCHEDULED)
    return PodGroupRow(
        round(seconds_of(group.metadata.creation_timestamp), 1),
        group.spec.priority,
        policy.gang.min_count if policy.HasField("gang") else 0,
        condition is not None and condition.status == TRUE,
        group_status(group, 0.0),
        "not tried yet" if condition is None else cut(condition.message),
    )


def pod_group_line(found: PodGroupRow | None, members: Collection[PodRow]) -> PodGroupLine:
    """Return the line of a group; ``found``: its object, if it exists."""
    living = [member for member in members if not member.ended]
    waiting = [member.pending for member in living if member.pending is not None]
    with_node = len(living) - len(waiting)
    state, message = _state(found, with_node, waiting)
    known = found if found is not None else _first(waiting)
    since, priority = (known.since, known.priority) if known is not None else (0.0, 0)
    nodes = len({row.nominated for row in waiting} - {""})
    row = PendingGroupRow(
        since,
        state,
        message,
        priority,
        counted(nodes, "node") if nodes else "",
        with_node,
        len(living),
        found.policy if found is not None else "",
    )
    starts = found is not None and not found.scheduled and not with_node
    at = max((member.decision.at for member in members if member.decision is not None), default=0.0)
    return PodGroupLine(row, bool(waiting) or starts, _decision(at, row) if at else None)


def _first(waiting: Collection[PendingRow]) -> PendingRow | None:
    """Return the member that has waited longest."""
    return min(waiting, key=lambda row: (row.since, row.message), default=None)


def _state(
    found: PodGroupRow | None, with_node: int, waiting: Collection[PendingRow]
) -> tuple[str, str]:
    """Return the state of a group and a message, which may be empty."""
    if found is None:
        return WAITING_FOR_GROUP, ""
    if found.scheduled:
        # The group has started, so the other members wait: show the message of the first of them.
        first = _first(waiting)
        return found.state, first.message if first is not None else ""
    gated = sum(row.reason == "SchedulingGated" for row in waiting)
    there = with_node + len(waiting) - gated
    if there < max(found.min_count, 1):
        gates = f", {gated:,} more with scheduling gates" if gated else ""
        return WAITING_FOR_MEMBERS, f"{there:,} of {max(found.min_count, 1):,} are there{gates}"
    return found.state, found.message


def _decision(at: float, row: PendingGroupRow) -> DecisionRow:
    counts = f"{row.with_node:,} of {row.members:,} members have a node"
    message = counts if row.reason == SCHEDULED else row.message
    return DecisionRow(at, "", row.reason, message)


class PodGroupTable:
    """The groups with their members; ``lines``: the line of each as of the last ``update``."""

    def __init__(self) -> None:
        self.lines: dict[str, PodGroupLine] = {}
        #: Keys of members by group, and what they request together, in the page's units.
        self.members: Grouped[str, str, None] = Grouped()
        self.requested: dict[str, Counter[str]] = {}
        self._rows: dict[str, PodGroupRow] = {}
        #: Groups whose lines ``update`` has to compute again.
        self._changed: set[str] = set()

    def put(self, key: str, group: PodGroup | None) -> None:
        """Update a PodGroup; None: it is gone."""
        self._changed.add(key)
        if group is not None:
            self._rows[key] = pod_group_row(group)
        else:
            self._rows.pop(key, None)

    def count(self, key: str, pod: PodRow, sign: int) -> None:
        """Add a member, or remove it (``sign`` -1)."""
        self._changed.add(pod.group)
        self.members.move(key, pod.group if sign > 0 else None, None)
        requested = self.requested.setdefault(pod.group, Counter())
        for resource, amount in pod.requests.items():
            requested[resource] += sign * amount
        if pod.group not in self.members:
            del self.requested[pod.group]

    def update(
        self, pods: Mapping[str, PodRow]
    ) -> Iterator[tuple[str, PodGroupLine | None, PodGroupLine | None]]:
        """Compute changed lines; yield each changed group with its line before and now."""
        for group in self._changed:
            members = self.members.of(group)
            found, before = self._rows.get(group), self.lines.pop(group, None)
            line = None
            if found is not None or members:
                line = pod_group_line(found, [pods[key] for key in members])
                self.lines[group] = line
            yield group, before, line
        self._changed.clear()
