"""Keys in groups, for indexes: empty groups vanish, and keys stay in the order of their arrival."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

G = TypeVar("G", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def lists_by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values of each key, in the order in which they came."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class Groups(Generic[G, K, V]):
    """Keys with values; a key may be in several groups."""

    def __init__(self) -> None:
        self._groups: dict[G, dict[K, V]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[G]:
        return iter(self._groups)

    def __contains__(self, group: object) -> bool:
        return group in self._groups

    def of(self, group: G) -> Mapping[K, V]:
        """Return the keys of a group, with their values."""
        return self._groups.get(group, {})

    def put(self, group: G, key: K, value: V) -> None:
        self._groups.setdefault(group, {})[key] = value

    def drop(self, group: G, key: K) -> None:
        """Remove a key from a group, if it is there."""
        keys = self._groups.get(group, {})
        keys.pop(key, None)
        if not keys:
            self._groups.pop(group, None)

    def pop(self, group: G) -> Mapping[K, V]:
        """Remove a group and return its keys."""
        return self._groups.pop(group, {})

    def next_in_turn(self) -> K:
        """Remove and return the oldest key of the first group, which becomes the last group.

        So the groups take turns. Raises StopIteration if there is none.
        """
        group = next(iter(self._groups))
        keys = self._groups.pop(group)
        key = next(iter(keys))
        del keys[key]
        if keys:
            self._groups[group] = keys
        return key


class Grouped(Groups[G, K, V]):
    """Keys with values, each in one group."""

    def __init__(self) -> None:
        super().__init__()
        self._group_of: dict[K, G] = {}

    def group_of(self, key: K) -> G | None:
        """Return the group of a key; None if it is in none."""
        return self._group_of.get(key)

    def move(self, key: K, group: G | None, value: V) -> None:
        """Move a key to a group; None: remove it."""
        if self._group_of.get(key) != group:
            self.remove(key)
        if group is not None:
            self._group_of[key] = group
            self.put(group, key, value)

    def remove(self, key: K) -> None:
        """Remove a key, if it is there."""
        before = self._group_of.pop(key, None)
        if before is not None:
            self.drop(before, key)
