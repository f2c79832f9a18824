"""Hollow nodes, which ``sched agent`` simulates: nothing runs on them. They have a label."""

from __future__ import annotations

from podsched.api.objects import Node

HOLLOW_LABEL = "podsched.io/hollow"
#: What is said of a hollow node wherever there is room for a sentence.
HOLLOW_TEXT = "hollow node of sched agent: nothing runs on it"


def is_hollow(node: Node) -> bool:
    """Return whether a node is hollow: no process runs for its pods."""
    return node.metadata.labels.get(HOLLOW_LABEL) == "true"
