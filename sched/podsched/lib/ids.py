"""Names of the things that are passed around as plain strings and numbers.

They exist so that a type checker tells a uid from a name and a revision from a term.
"""

from __future__ import annotations

from typing import NewType

PodKey = NewType("PodKey", str)
"""namespace/name of a pod."""

Revision = NewType("Revision", int)
"""A revision of etcd's store; grows with every write."""

Term = NewType("Term", int)
"""The revision at which leadership was won; the token that fences a leader's writes."""
