"""A base class of the queries that count pods (``framework.nodes.PodQuery``)."""

from __future__ import annotations

from typing import Any


class ContentQuery:
    """A base class of queries that are equal if their contents are; the hash is computed once.

    A pickled query leaves out the hash, because hashes of strings differ between processes.
    """

    __slots__ = ("_content", "_hash")

    def __init__(self, *content: Any) -> None:
        """``content``: the arguments of the subclass's constructor, in order."""
        self._content = content
        self._hash = hash((type(self), content))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._content

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContentQuery)
            and type(self) is type(other)
            and self._content == other._content
        )
