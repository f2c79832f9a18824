"""Hollow nodes: ``sched agent`` plays them, and nothing runs on them. Their label says so."""

from __future__ import annotations

from podsched.api.objects import Node

HOLLOW_LABEL = "podsched.io/hollow"
#: What is said of a hollow node wherever there is room for a sentence.
HOLLOW_TEXT = "hollow node of sched agent: nothing runs on it"


def is_hollow(node: Node) -> bool:
    """Return whether a node is played by an agent, so that no process runs for its pods."""
    return node.metadata.labels.get(HOLLOW_LABEL) == "true"
