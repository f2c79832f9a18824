"""Selectors remember their results."""

from __future__ import annotations

import pytest

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.api.device_selectors import Device
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors


class Counting:
    """Selects devices of driver "a"; fails for driver "bad"; counts its evaluations."""

    estimated_cost = 1

    def __init__(self, expression: str) -> None:
        if expression == "wrong":
            raise CompileError("wrong")
        self.evaluated: list[str] = []

    def matches(self, device: Device) -> bool:
        self.evaluated.append(device.driver)
        if device.driver == "bad":
            raise EvaluationError("bad")
        return device.driver == "a"


def test_a_selector_is_evaluated_once_for_each_device() -> None:
    made: list[Counting] = []

    def compile_selector(expression: str) -> Counting:
        made.append(Counting(expression))
        return made[-1]

    selectors, devices = RememberedSelectors(compile_selector), [Device("a"), Device("b")]
    bad = Device("bad")
    for _ in range(3):
        assert [selectors("x").matches(device) for device in devices] == [True, False]
        with pytest.raises(EvaluationError):
            selectors("x").matches(bad)
    assert made[0].evaluated == ["a", "b", "bad"]
    assert len(made) == 1
    selectors.forget()
    assert selectors("x").matches(devices[0])
    assert len(made) == 2


def test_an_expression_that_does_not_compile_fails_each_time() -> None:
    compiled: list[str] = []

    def compile_selector(expression: str) -> Counting:
        compiled.append(expression)
        return Counting(expression)

    selectors = RememberedSelectors(compile_selector)
    for _ in range(2):
        with pytest.raises(CompileError):
            selectors("wrong")
    assert compiled == ["wrong"]


def test_what_may_take_long_is_left_to_those_who_do_it_in_advance() -> None:
    class Slow(Counting):
        estimated_cost = 1_000_000

    selectors = RememberedSelectors(Slow)
    selectors.holds_back = True
    devices = [Device("a"), Device("bad")]
    with pytest.raises(AllocationAborted):
        selectors("x")
    selectors.compiled("x")
    assert not selectors.is_quick("x")
    with pytest.raises(AllocationAborted):
        selectors("x").matches(devices[0])
    for device in devices:
        assert not selectors.has_evaluated("x", device)
        selectors.evaluate("x", device)
        assert selectors.has_evaluated("x", device)
    assert selectors("x").matches(devices[0])
    with pytest.raises(EvaluationError):
        selectors("x").matches(devices[1])
    assert not selectors.has_evaluated("x", [Device("a")])


def test_a_quick_selector_is_evaluated_at_once() -> None:
    selectors = RememberedSelectors(Counting)
    selectors.holds_back = True
    selectors.compiled("x")
    assert selectors.is_quick("x")
    assert selectors("x").matches(Device("a"))
