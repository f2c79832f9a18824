"""The search for changes, with one finder for each kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from podsched.ask.explain.changes import demands, devices
from podsched.ask.explain.changes.demands import drop, remove_gates
from podsched.ask.explain.changes.devices import drop_from_claim, fewer_devices
from podsched.ask.explain.changes.nodes import add_node, uncordon
from podsched.ask.explain.changes.pods_gone import pods_gone
from podsched.ask.explain.changes.question import Kind, Question
from podsched.ask.explain.changes.requests import lower_requests
from podsched.ask.explain.changes.tolerations import add_toleration
from podsched.v1.scheduling_pb2 import Change, Explanation

#: In the order in which they are shown.
FINDERS: Final[Mapping[Kind, Callable[[Question], Change | None]]] = {
    Kind.GATES: remove_gates,
    Kind.UNCORDON: uncordon,
    Kind.REQUESTS: lower_requests,
    Kind.TOLERATION: add_toleration,
    **{kind: partial(drop, kind=kind) for kind in demands.DEMANDS},
    Kind.DEVICE_COUNT: fewer_devices,
    **{kind: partial(drop_from_claim, kind=kind) for kind in devices.DEMANDS},
    Kind.PODS_GONE: pods_gone,
    Kind.NODE: add_node,
}


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
    """Add changes that would make the pod fit to its explanation, or a note that there are none.

    Nothing for a pod that a PreEnqueue plugin keeps out of the queue for more than its scheduling
    gates: no change is tried that would let it in.
    """
    if len(question.feasible(question.asked)) or question.runtime.gate(question.pod) is not None:
        return
    found = find_changes(question)
    answer.changes.extend(found)
    if not found:
        answer.notes.append("No single change that was tried would make it fit.")
