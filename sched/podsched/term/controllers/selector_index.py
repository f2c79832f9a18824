"""Finds the label selectors of one namespace that may match a pod, without trying all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

from podsched.api.selectors import Selector
from podsched.lib.groups import Grouped

T = TypeVar("T")
_ANY = ("", "")


class SelectorIndex(Generic[T]):
    """Items with selectors, by key, indexed by a label that the selector requires."""

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        #: By a label that the selector requires; _ANY if it requires none.
        self._by_label = Grouped[tuple[str, str], str, T]()

    def put(self, key: str, selector: Selector, item: T) -> None:
        self.items[key] = item
        self._by_label.move(key, selector.required_label or _ANY, item)

    def remove(self, key: str) -> None:
        self.items.pop(key, None)
        self._by_label.remove(key)

    def asking_for(self, *labels: Mapping[str, str]) -> dict[str, T]:
        """Return the items that may select pods with one of these sets of labels."""
        found = dict(self._by_label.of(_ANY))
        for pair in (pair for some in labels for pair in some.items()):
            found |= self._by_label.of(pair)
        return found
