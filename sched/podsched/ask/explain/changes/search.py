"""The search for changes, with one finder for each kind.

A caller that must not block for long can call the finders in ``FINDERS`` one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from podsched.ask.explain.changes.change import Change, Kind
from podsched.ask.explain.changes.demands import drop, remove_gates
from podsched.ask.explain.changes.devices import drop_from_claim, fewer_devices
from podsched.ask.explain.changes.nodes import add_node, uncordon
from podsched.ask.explain.changes.pods_gone import pods_gone
from podsched.ask.explain.changes.question import Question
from podsched.ask.explain.changes.requests import lower_requests
from podsched.ask.explain.changes.tolerations import add_toleration
from podsched.v1.scheduling_pb2 import Explanation

#: In the order in which they are shown.
FINDERS: Final[Mapping[Kind, Callable[[Question], Change | None]]] = MappingProxyType({
    Kind.GATES: remove_gates,
    Kind.UNCORDON: uncordon,
    Kind.REQUESTS: lower_requests,
    Kind.TOLERATION: add_toleration,
    Kind.NODE_SELECTOR: partial(drop, kind=Kind.NODE_SELECTOR),
    Kind.AFFINITY: partial(drop, kind=Kind.AFFINITY),
    Kind.SPREAD: partial(drop, kind=Kind.SPREAD),
    Kind.PORT: partial(drop, kind=Kind.PORT),
    Kind.LABEL: partial(drop, kind=Kind.LABEL),
    Kind.DEVICE_COUNT: fewer_devices,
    Kind.DEVICE_SELECTOR: partial(drop_from_claim, kind=Kind.DEVICE_SELECTOR),
    Kind.DEVICE_CONSTRAINT: partial(drop_from_claim, kind=Kind.DEVICE_CONSTRAINT),
    Kind.PODS_GONE: pods_gone,
    Kind.NODE: add_node,
})  # fmt: skip


def find_changes(question: Question) -> list[Change]:
    """Return the smallest change of each kind that has one; none where the pod fits already.

    If removing its gates is enough, that is the only change: no other one would lift the gates.
    """
    if len(question.feasible(question.asked)):
        return []
    if (ungated := remove_gates(question)) is not None:
        return [ungated]
    return [change for find in FINDERS.values() if (change := find(question)) is not None]


def add_changes(answer: Explanation, question: Question) -> None:
    """Add changes that would make the pod fit to its explanation, or a note that there are none."""
    if len(question.feasible(question.asked)):
        return
    found = find_changes(question)
    answer.changes.extend(change.to_message(question.asked.pod) for change in found)
    if not found:
        answer.notes.append("No single change of the pod or the cluster would make it fit.")
