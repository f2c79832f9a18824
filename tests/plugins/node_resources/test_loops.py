"""The compiled loop does what Python does with the same arrays, and is not needed."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.plugins.node_resources import loops
from podsched.plugins.node_resources.loops import choose, compile_loops
from support.examples import examples

AMOUNT = st.integers(1, 2**45 - 1)


@pytest.fixture(autouse=True, scope="module")
def compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loops, "_compiled", None)
        assert compile_loops()
        yield


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Any, ...]:
    """The arguments of ``choose`` up to the others' totals, for a few nodes."""
    size = draw(st.integers(1, 6))
    columns = [draw(st.lists(AMOUNT, min_size=size, max_size=size)) for _ in range(6)]
    amounts = [np.array(columns[at : at + 2], dtype=np.float64) for at in (0, 2, 4)]
    balance = np.array(draw(st.lists(st.integers(0, 100), min_size=size, max_size=size)))
    pods = draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    room = np.array([[0] * size, [0] * size, pods])
    others = draw(st.lists(st.integers(-1, 1200), min_size=size, max_size=size))
    return (*amounts, balance, room, np.array(others, dtype=np.float64))


@examples(300)
@given(nodes(), st.lists(AMOUNT, min_size=4, max_size=4), st.integers(1, 100))
def test_the_compiled_loop_gives_the_same_totals_bit_by_bit(
    nodes: tuple[Any, ...], wanted: list[int], weight: int
) -> None:
    counted, requested = map(float, wanted[:2]), [float(amount) for amount in wanted[2:]]
    arguments = (*nodes, *counted, *requested, requested[0], -np.inf, float(weight), 1.0)
    plain, fast = np.empty(len(nodes[-1])), np.empty(len(nodes[-1]))
    loop = loops.choose_loop()
    assert loop is not None
    assert loop(*arguments, fast) == choose(*arguments, plain)
    assert fast.tolist() == plain.tolist()


def test_without_numba_there_is_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(loops, "_compiled", None)
    assert compile_loops() == ""
    assert loops.choose_loop() is None
