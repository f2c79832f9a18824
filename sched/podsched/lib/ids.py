"""Distinct types for strings and numbers with a meaning.

With them the type checker distinguishes a pod's key from its name, and a revision from a term.
"""

from __future__ import annotations

from typing import NewType

PodKey = NewType("PodKey", str)
"""The "namespace/name" of a pod."""

Revision = NewType("Revision", int)
"""A revision of etcd's store; grows with every write."""

Term = NewType("Term", int)
"""The revision at which leadership was won; the fencing token of a leader's writes."""
