"""Types of the plain strings and numbers that are passed around.

They exist so that a type checker tells a pod's key from its name, and a revision from a term.
"""

from __future__ import annotations

from typing import NewType

PodKey = NewType("PodKey", str)
"""namespace/name of a pod."""

Revision = NewType("Revision", int)
"""A revision of etcd's store; grows with every write."""

Term = NewType("Term", int)
"""The revision at which leadership was won; the token that fences a leader's writes."""
