from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from podsched.queue.key_heap import KeyHeap

STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "pop"]), st.integers(0, 150), st.integers(0, 3)),
    max_size=400,
)


@given(STEPS)
def test_a_heap_gives_what_sorting_would_give(steps: list[tuple[str, int, int]]) -> None:
    heap: KeyHeap[int] = KeyHeap()
    model: dict[str, tuple[int, int]] = {}
    for step, (verb, number, key) in enumerate(steps):
        name = str(number)
        if verb == "add":
            heap.add(name, (key,), number)
            model[name] = (key, step)
        elif verb == "remove":
            assert heap.remove(name) == (number if model.pop(name, None) else None)
        else:
            first = min(model, key=lambda n: model[n]) if model else None
            assert heap.pop() == (None if first is None else int(first))
            model.pop(first or "", None)
        assert len(heap) == len(model)
    assert heap.in_order() == [int(name) for name in sorted(model, key=lambda n: model[n])]


class Item:
    """Something that can be referred to weakly."""


def test_removed_items_do_not_pile_up() -> None:
    heap: KeyHeap[Item] = KeyHeap()
    kept: weakref.WeakSet[Item] = weakref.WeakSet()
    for number in range(10_000):
        item = Item()
        kept.add(item)
        heap.add(str(number), (number,), item)
        heap.remove(str(number))
    assert len(kept) < 100
