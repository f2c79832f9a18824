"""Finds the label selectors of one namespace that may match a pod, without trying all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from podsched.api.selectors import Selector

T = TypeVar("T")


class SelectorIndex(Generic[T]):
    """Items with selectors, by key, indexed by a label that the selector requires."""

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        self._required: dict[str, tuple[str, str] | None] = {}
        self._by_label: dict[tuple[str, str] | None, dict[str, T]] = {}
        """By a label that the selector requires; None if it requires none."""

    def put(self, key: str, selector: Selector, item: T) -> None:
        self.remove(key)
        self.items[key] = item
        label = self._required[key] = selector.required_label
        self._by_label.setdefault(label, {})[key] = item

    def remove(self, key: str) -> None:
        if key not in self.items:
            return
        del self.items[key]
        label = self._required.pop(key)
        group = self._by_label[label]
        del group[key]
        if not group:
            del self._by_label[label]

    def asking_for(self, *labels: Mapping[str, str]) -> dict[str, T]:
        """Return the items that may select pods with one of these sets of labels."""
        found = dict(self._by_label.get(None, {}))
        for pair in (pair for some in labels for pair in some.items()):
            found |= self._by_label.get(pair, {})
        return found
