"""The keyed heap."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from podsched.lib.heap import Heap


@dataclass(frozen=True)
class Item:
    name: str
    rank: int


def new_heap() -> Heap[str, Item]:
    return Heap(key=lambda item: item.name, less=lambda a, b: a.rank < b.rank)


def drain(heap: Heap[str, Item]) -> list[str]:
    names = []
    while (item := heap.pop()) is not None:
        names.append(item.name)
    return names


def test_items_leave_in_order() -> None:
    heap = new_heap()
    for name, rank in (("c", 3), ("a", 1), ("b", 2)):
        heap.add(Item(name, rank))
    assert drain(heap) == ["a", "b", "c"]


def test_equal_items_leave_in_the_order_they_were_added() -> None:
    heap = new_heap()
    names = [f"item-{i}" for i in range(50)]
    for name in names:
        heap.add(Item(name, 7))
    assert drain(heap) == names


def test_an_item_added_again_moves_to_where_it_belongs_now() -> None:
    heap = new_heap()
    for name, rank in (("a", 1), ("b", 2), ("c", 3)):
        heap.add(Item(name, rank))
    heap.add(Item("a", 9))
    assert drain(heap) == ["b", "c", "a"]


def test_a_deleted_item_is_gone() -> None:
    heap = new_heap()
    heap.add(Item("a", 1))
    heap.add(Item("b", 2))
    assert heap.delete("a") == Item("a", 1)
    assert "a" not in heap
    assert heap.delete("a") is None
    assert drain(heap) == ["b"]


def test_the_item_that_fills_a_gap_may_have_to_rise() -> None:
    heap = new_heap()
    # Laid out as given: 11 is below 10 on the left, 4 comes last on the right.
    ranks = (1, 10, 2, 11, 12, 20, 3, 13, 14, 15, 16, 21, 22, 23, 4)
    for rank in ranks:
        heap.add(Item(f"{rank:02}", rank))
    heap.delete("11")
    assert drain(heap) == [f"{rank:02}" for rank in sorted(ranks) if rank != 11]


class HeapAgainstASortedDict(RuleBasedStateMachine):
    """Whatever is done to it, the heap answers as a sorted dict would."""

    def __init__(self) -> None:
        super().__init__()
        self.heap = new_heap()
        self.model: dict[str, tuple[int, int]] = {}
        self.added = 0

    @rule(name=st.sampled_from("abcdefghij"), rank=st.integers(0, 4))
    def add(self, name: str, rank: int) -> None:
        self.added += 1
        self.model[name] = (rank, self.model[name][1] if name in self.model else self.added)
        self.heap.add(Item(name, rank))

    @rule(name=st.sampled_from("abcdefghij"))
    def delete(self, name: str) -> None:
        assert (self.heap.delete(name) is None) == (self.model.pop(name, None) is None)

    @rule()
    def pop(self) -> None:
        item = self.heap.pop()
        expected = min(self.model, key=lambda name: self.model[name], default=None)
        assert (item.name if item else None) == expected
        if expected:
            del self.model[expected]

    @invariant()
    def the_first_item_is_the_smallest(self) -> None:
        first = self.heap.peek()
        expected = min(self.model, key=lambda name: self.model[name], default=None)
        assert (first.name if first else None) == expected
        assert len(self.heap) == len(self.model)
        assert all(name in self.heap for name in self.model)


TestHeapAgainstASortedDict = HeapAgainstASortedDict.TestCase
