"""Which pods the gate of the queues keeps out of activeQ."""

from __future__ import annotations

import pytest

from podsched.framework.status import SUCCESS
from podsched.term.admission.gate import REASON_GATED, Gate
from podsched.term.admission.units import Unit, unit_key
from support.engine_pods import pod_info

WAITING, ARRIVED, OTHER = pod_info("waiting"), pod_info("arrived"), pod_info("other")


class World:
    """A gate; pod ``waiting`` is counted as waiting, ``arrived`` names a queue, ``other`` none."""

    def __init__(self) -> None:
        key, self.helped = unit_key(WAITING), list[str]()
        units = {key: Unit(key, waiting={WAITING.uid: WAITING})}
        queues = {ARRIVED.name: "team"}
        self.gate = Gate(units, lambda pod: queues.get(pod.name), self.helped.append)
        self.gate.active = True


def test_pods_of_queues_are_kept_out_and_all_others_pass() -> None:
    gate = World().gate
    for pod in (WAITING, ARRIVED):
        assert gate.pre_enqueue(pod).message == REASON_GATED
    assert gate.pre_enqueue(OTHER) == SUCCESS


def test_a_pod_that_is_not_the_one_that_waits_under_its_name_passes() -> None:
    born_again = pod_info("waiting", uid="another")
    assert World().gate.pre_enqueue(born_again) == SUCCESS


def test_while_there_are_no_queues_every_pod_passes() -> None:
    gate = World().gate
    gate.active = False
    assert gate.pre_enqueue(WAITING) == SUCCESS


def test_a_unit_passes_while_it_is_popped_and_not_after_that_has_failed() -> None:
    gate = World().gate
    with pytest.raises(IndexError), gate.lets_pass(unit_key(WAITING)):
        assert gate.pre_enqueue(WAITING) == SUCCESS
        assert gate.pre_enqueue(ARRIVED) != SUCCESS
        raise IndexError("a bug")
    assert gate.pre_enqueue(WAITING) != SUCCESS


def test_a_unit_that_is_asked_about_again_may_have_been_helped() -> None:
    world = World()
    for pod in (WAITING, OTHER):
        world.gate.pre_enqueue(pod)
    assert world.helped == [unit_key(WAITING)]
