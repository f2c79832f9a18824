"""A checkpoint brings an empty state to where another one was."""

from __future__ import annotations

from podsched.api.kinds import KINDS, WATCHED_KINDS
from podsched.api.objects import AnyObject, Node, Pod
from podsched.config.load import default_config
from podsched.decide.runtime.plugin_handle import Chance
from podsched.lab.replay.capture import RECORDED_KINDS
from podsched.registry import factories
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.term.checkpoint import checkpoint_of, restore
from podsched.term.state import SchedulingState, build_state
from support.engine_world import node, pod


def empty() -> SchedulingState:
    return build_state(default_config(), factories(), seed=7)


def a_pod(name: str, on: str = "") -> Pod:
    made = pod(name, {"schedulerName": "default-scheduler", "nodeName": on})
    made.metadata.uid = f"uid-{name}"
    return made


def tell(state: SchedulingState, item: AnyObject, type_: EventType = EventType.ADDED) -> None:
    key = f"default/{item.metadata.name}" if isinstance(item, Pod) else item.metadata.name
    old, new = (item, None) if type_ is EventType.DELETED else (None, item)
    state.apply(Event(type_, type(item).__name__, key, old, new), 0.0)


def test_rows_orders_assumptions_nominations_and_chance_are_restored() -> None:
    state = empty()
    nodes = {f"n{number}": node(f"n{number}") for number in range(70)}
    for item in nodes.values():
        tell(state, item)
    for gone in ("n3", "n50", "n7"):
        tell(state, nodes.pop(gone), EventType.DELETED)
    nodes["late"] = node("late")
    tell(state, nodes["late"])
    pods = [a_pod("z", "n1"), a_pod("a", "n1"), a_pod("assumed"), a_pod("first"), a_pod("second")]
    for item in pods:
        tell(state, item)
    known = state.cache.cluster.pods
    state.cache.assume(known["default/assumed"], "n1")
    for name in ("second", "first"):
        state.cache.nominate(known[f"default/{name}"], "late")
    state.chance.random()
    state.revision, state.beyond = 12, 3

    taken = checkpoint_of(state, rotation=5, number=9)
    other = empty()
    # In the order of a list, which is that of names.
    objects: list[AnyObject] = sorted([*nodes.values(), *pods], key=lambda item: item.metadata.name)
    restore(other, taken, objects)

    assert checkpoint_of(other, rotation=5, number=9) == taken
    assert taken["pods"] == {"n1": ["uid-z", "uid-a", "uid-assumed"]}
    assert taken["assumed"] == {"uid-assumed": "n1"}
    assert taken["nominated"] == [["uid-second", "late"], ["uid-first", "late"]]
    assert state.cache.columns.row_of("late") == 7, "the row that was freed last"
    assert other.chance.random() == state.chance.random()
    for more in (Node(), Node()):
        more.metadata.name = f"more-{id(more)}"
        tell(state, more)
        tell(other, more)
    assert list(other.cache.columns.names) == list(state.cache.columns.names)


def test_what_is_peeked_at_is_drawn_next_also_after_chance_has_gone_back() -> None:
    chance = Chance(7)
    numbers = [chance.random() for _ in range(3)]
    chance.go_to(1)
    assert chance.peek() == chance.peek() == numbers[1]
    assert chance.draws == 1
    assert chance.random() == numbers[1]
    chance.peek()
    chance.go_to(0)
    assert chance.random() == numbers[0]
    chance.peek()
    chance.go_to(2)
    assert chance.random() == numbers[2]


def test_of_a_part_of_a_response_as_many_changes_are_counted_as_a_recording_has() -> None:
    state = empty()
    events = []
    for kind in WATCHED_KINDS:
        made = KINDS[kind].message()
        made.metadata.name = made.metadata.uid = "a"
        events.append(Event(EventType.ADDED, kind, "default/a", None, made))
    state.apply_batch(Batch(1, events, partial=True), 0.0)
    assert state.beyond == len(RECORDED_KINDS)
