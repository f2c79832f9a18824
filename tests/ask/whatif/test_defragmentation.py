"""Few moves that free nodes or make room."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.defragmentation import (
    MAX_CANDIDATES,
    Defragmentation,
    Rules,
    free_nodes,
    make_room,
    obstacle,
)
from podsched.ask.whatif.evacuation import replacement
from podsched.ask.whatif.world import World, pods_on
from support.examples import examples
from support.whatif_world import budget, node, owned, world

LARGE = {"cpu": "4", "pods": "9"}


def budgets_of(made: World) -> Budgets:
    return Budgets(made.cluster.list("PodDisruptionBudget"), [pod.pod for pod in made.pods()])


def freed(made: World, number: int = 1, rules: Rules | None = None) -> Defragmentation:
    return free_nodes(made, number, rules or Rules(), budgets_of(made))


def roomed(made: World, rules: Rules | None = None) -> Defragmentation | None:
    [waiting] = made.pending()
    return make_room(made, waiting, rules or Rules(), budgets_of(made))


def moves(found: Defragmentation | None) -> list[tuple[str, str, str]]:
    steps = () if found is None else found.steps
    return [(step.pod.name, step.from_node, step.to_node) for step in steps]


def test_the_node_with_least_on_it_is_freed_first() -> None:
    made = world([node("a"), node("b"), owned("one", "a"), owned("two", "a"), owned("three", "b")])
    found = freed(made)
    assert (found.freed, moves(found)) == (("b",), [("three", "b", "a")])


def test_a_node_that_is_free_already_is_not_filled_to_free_another() -> None:
    made = world([node("a"), node("empty"), owned("one", "a")])
    assert freed(made).steps == ()


def test_what_belongs_to_a_node_does_not_keep_it_from_being_free() -> None:
    daemon = owned("daemon", "a", kind="DaemonSet")
    made = world([node("a"), node("b"), daemon, owned("one", "a"), owned("two", "b", "2")])
    assert moves(freed(made)) == [("one", "a", "b")]


def test_several_nodes_are_freed_within_the_number_of_moves() -> None:
    pods = [owned(f"p{i}", f"n{i}", "500m") for i in range(4)]
    nodes = [node(f"n{i}") for i in range(4)]
    assert freed(world([*nodes, *pods]), 9).freed == ("n0", "n1", "n2")
    assert freed(world([*nodes, *pods]), 9, Rules(max_moves=2)).freed == ("n0", "n1")


def test_a_budget_that_permits_nothing_keeps_a_node() -> None:
    made = world([node("a"), node("b"), owned("web", "a"), owned("db", "b", "2", owner="db"),
                  budget("web", min_available="1"), budget("db", max_unavailable="0")])  # fmt: skip
    assert freed(made).steps == ()


def test_pods_without_a_controller_are_moved_only_by_force() -> None:
    objects = [node("a"), node("b"), owned("alone", "a", owner=""), owned("two", "b", "2")]
    assert freed(world([*objects, owned("three", "b", "1", owner="")])).steps == ()
    assert moves(freed(world(objects), rules=Rules(force=True))) == [("alone", "a", "b")]


def test_a_pod_that_tolerates_cordoned_nodes_goes_to_none_that_is_to_be_free() -> None:
    anywhere = [{"operator": "Exists"}]
    made = world(
        [
            *map(node, ("a", "b", "c")),
            owned("daemon", "a", "2", kind="DaemonSet"),
            owned("one", "a", "500m", tolerations=anywhere),
            owned("two", "b", "500m"),
            owned("three", "c", "3"),
        ]
    )
    found = freed(made, 2)
    assert len(found.freed) == 2
    assert not {to for _, _, to in moves(found)} & {*found.freed}


def test_a_pod_that_tolerates_cordoned_nodes_goes_to_none_that_is_free_already() -> None:
    made = world(
        [
            node("a"),
            node("free"),
            owned("daemon", "a", "2", kind="DaemonSet"),
            owned("one", "a", tolerations=[{"operator": "Exists"}]),
        ]
    )
    assert freed(made).steps == ()


def test_a_pod_without_a_controller_moves_only_where_its_copy_can_run_beside_it() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "lone"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {"affinity": {"podAntiAffinity": required}, "metadata": {"labels": {"app": "lone"}}}
    sizes = {"a": "4", "b": "5"}
    nodes = [
        node(name, labels={"zone": "1"}, allocatable={"cpu": cpu, "pods": "9"})
        for name, cpu in sizes.items()
    ]
    for owner, found in (("", []), ("lone", [("pod", "a", "b")])):
        pods = [owned("pod", "a", owner=owner, **spec), owned("two", "b", "3500m")]
        assert moves(freed(world([*nodes, *pods]), rules=Rules(force=True))) == found


def test_however_many_nodes_have_pods_that_must_not_move_the_others_are_tried() -> None:
    kept = [f"a{number}" for number in range(MAX_CANDIDATES)]
    nodes = [node(name, allocatable={"cpu": "1", "pods": "9"}) for name in kept]
    alone = [owned(f"alone-{name}", name, owner="") for name in kept]
    made = world(
        [*nodes, node("b"), node("c"), *alone, owned("one", "b", "1"), owned("two", "c", "2")]
    )
    assert freed(made).freed == ("b",)


def test_pods_with_data_of_their_own_or_of_the_system_stay() -> None:
    local = owned("local", "a", volumes=[{"name": "v", "emptyDir": {}}])
    assert obstacle(local, Rules()) == "with data in emptyDir volumes"
    assert obstacle(local, Rules(local_data=True)) == ""
    critical = owned("critical", "a", priority=2_000_000_000)
    assert obstacle(critical, Rules()) == "critical for the system"


def test_room_is_made_by_the_fewest_moves() -> None:
    made = world(
        [
            node("a", allocatable=LARGE),
            node("b", allocatable=LARGE),
            owned("small-0", "a", "1"),
            owned("small-1", "a", "1"),
            owned("large", "b", "2"),
            owned("waits", cpu="4"),
        ]
    )
    found = roomed(made)
    assert found is not None
    assert (found.node_name, moves(found)) == ("b", [("large", "b", "a")])
    assert [pod.name for pod in pods_on(made, "b")] == ["large"], "the world stays as it is"


def test_a_pod_that_need_not_go_stays() -> None:
    made = world(
        [
            node("a", allocatable=LARGE),
            node("b", allocatable={"cpu": "3", "pods": "9"}),
            owned("big", "a", "2"),
            owned("tiny", "a", "100m"),
            owned("waits", cpu="3500m"),
        ]
    )
    assert moves(roomed(made)) == [("big", "a", "b")]


def test_no_pod_of_a_higher_priority_is_moved() -> None:
    objects = [node("a", allocatable=LARGE), node("b", allocatable={"cpu": "2", "pods": "9"})]
    high = owned("high", "a", "1", priority=7)
    assert roomed(world([*objects, high, owned("waits", cpu="4")])) is None
    found = roomed(world([*objects, high, owned("waits", cpu="4", priority=7)]))
    assert moves(found) == [("high", "a", "b")]


def test_a_pod_that_no_moves_help_gets_none() -> None:
    made = world([node("a"), node("b"), owned("one", "a"), owned("waits", cpu="99")])
    assert roomed(made) is None


def test_a_pod_that_the_moved_pods_would_keep_away_from_its_node_gets_none() -> None:
    small = {"cpu": "2", "pods": "9"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }
    objects = [
        node("a", allocatable=LARGE, labels={"zone": "1"}),
        node("b", allocatable=small, labels={"zone": "1"}),
        node("c", allocatable={"cpu": "1", "pods": "9"}, labels={"zone": "2"}),
        owned("moves", "a", "2", owner="db"),
    ]
    waits = owned("waits", cpu="4", owner="db", topologySpreadConstraints=[spread])
    assert moves(roomed(world([*objects, owned("waits", cpu="4")]))) == [("moves", "a", "b")]
    assert roomed(world([*objects, waits])) is None


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes with pods of two applications on them, one of which has a budget."""
    count = draw(st.integers(2, 4))
    objects: list[Any] = [node(f"n{i}", allocatable=LARGE) for i in range(count)]
    for number in range(draw(st.integers(1, 8))):
        app = draw(st.sampled_from(("web", "db")))
        cpu = draw(st.sampled_from(("500m", "1", "2")))
        where = f"n{draw(st.integers(0, count - 1))}"
        objects.append(owned(f"{app}-{number}", where, cpu, owner=app))
    objects.append(budget("web", max_unavailable=draw(st.sampled_from(("0", "1")))))
    return objects


@given(objects=clusters(), room=st.booleans())
@examples(25)
def test_every_step_can_be_made_after_those_before_it(objects: list[Any], room: bool) -> None:
    if room:
        objects = [*objects, owned("waits", cpu="3")]
        found = roomed(world(objects)) or Defragmentation()
    else:
        found = freed(world(objects), 2)
    made = world(objects)
    budgets = budgets_of(made)
    for step in found.steps:
        [pod] = [pod for pod in pods_on(made, step.from_node) if pod.key == step.pod.key]
        assert not budgets.refusal(pod.pod)
        placeholder = owned(f"hold-{pod.name}", owner="")
        placeholder.spec.CopyFrom(pod.pod.spec)
        placeholder.spec.node_name = ""
        term = placeholder.spec.affinity.node_affinity
        required = term.required_during_scheduling_ignored_during_execution
        required.node_selector_terms.add().match_fields.add(
            key="metadata.name", operator="In", values=[step.to_node]
        )
        [held] = made.schedule([made.changes.submit(placeholder)], preempt=False)
        assert held.node_name == step.to_node, "there is room before anything is evicted"
        made.changes.remove(pod)
        made.changes.remove(held.pod)
        again = made.changes.submit(replacement(pod.pod))
        made.changes.nominate(again, step.to_node)
        [moved] = made.schedule([again], preempt=False)
        assert moved.node_name == step.to_node
    for name in found.freed:
        assert pods_on(made, name) == []
    if found.node_name:
        [waiting] = made.pending()
        made.changes.nominate(waiting, found.node_name)
        [outcome] = made.schedule([waiting], preempt=False)
        assert outcome.node_name == found.node_name
