"""The cluster in memory on which changes are tried."""

from __future__ import annotations

import gc
import random
import weakref

import pytest

from podsched.api.kinds import kind_of
from podsched.api.manifest import from_manifest
from podsched.ask.whatif.world import World, node_names, pods_on
from podsched.config.load import default_config
from podsched.plugins.volumes.claims import CLAIM, VOLUME
from podsched.registry import factories
from podsched.term.state import build_state
from podsched.v1 import objects_pb2 as v1
from support.engine_world import container, pod
from support.gangs import gang
from support.volume_world import claim, storage_class, volume
from support.whatif_world import node, owned, world

GPU = "example.com/gpu"


def placed(made: World) -> dict[str, list[str]]:
    """The pods on each node, by name."""
    return {name: [pod.name for pod in pods_on(made, name)] for name in node_names(made)}


def test_each_pod_counts_for_those_after_it() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "10"})])
    outcomes = made.schedule([made.changes.submit(owned(f"p{i}")) for i in range(3)])
    assert [outcome.node_name for outcome in outcomes] == ["a", "a", ""]
    assert outcomes[2].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert outcomes[2].rejections == {"NodeResourcesFit": 1}


def test_a_trial_that_is_not_kept_leaves_no_trace() -> None:
    made = world([node("a"), node("b"), owned("web-0", "a")])
    before = placed(made)
    with made.changes.trial():
        made.changes.remove(pods_on(made, "a")[0])
        made.changes.cordon("a")
        made.changes.put_node(node("c"))
        made.schedule([made.changes.submit(owned(f"p{i}")) for i in range(4)])
        made.changes.remove_node("b") if not pods_on(made, "b") else None
        assert placed(made) != before
    assert placed(made) == before
    assert [pod.key for pod in made.pods()] == ["default/web-0"]
    [again] = made.schedule([made.changes.submit(owned("p", cpu="3"))])
    assert again.node_name == "a" or again.node_name == "b", "nothing is cordoned any more"


def test_a_trial_within_another_is_undone_by_itself() -> None:
    made = world([node("a")])
    with made.changes.trial():
        made.schedule([made.changes.submit(owned("outer"))])
        with made.changes.trial():
            made.schedule([made.changes.submit(owned("inner"))])
        assert placed(made) == {"a": ["outer"]}
    assert placed(made) == {"a": []}


def test_a_trial_on_a_copy_leaves_the_running_cluster_alone() -> None:
    state = build_state(default_config(), factories(), seed=0)
    for obj in (node("a"), owned("web-0", "a"), owned("web-1")):
        state.cache.apply(kind_of(obj).name, None, obj)
    copy = World.on_copy(state.cache, state.profiles)
    with copy.question(copy.pending()[0]).without(copy.pods()):
        assert not copy.cluster.pods
        assert state.cache.cluster.open_trial is None
        assert len(state.cache.cluster.pods) == 2


def test_volumes_that_were_reserved_in_a_trial_are_free_again_and_nothing_is_looked_at_anew() -> (
    None
):
    stored = (storage_class("local"), volume("v"), claim("c"), claim("d"))
    objects = [from_manifest(manifest).message for manifest in stored]
    made = world([node("a"), *objects])
    assumed = [made.cluster.assumed(kind) for kind in (CLAIM, VOLUME)]
    before = [one.version for one in assumed]
    pods = [made.changes.submit(mounting(name, of)) for name, of in (("p", "c"), ("q", "d"))]
    for first, second in (pods, pods[::-1]):
        with made.changes.trial():
            nodes = [outcome.node_name for outcome in made.schedule([first, second])]
            assert nodes == ["a", ""]
            assert [one.version for one in assumed] != before
        assert [one.version for one in assumed] == before


def mounting(name: str, claim_name: str) -> v1.Pod:
    made = owned(name)
    made.spec.volumes.add(name="v").persistent_volume_claim.claim_name = claim_name
    return made


def test_a_preemptor_takes_the_place_of_its_victims() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), owned("low", "a", "2")])
    [outcome] = made.schedule([made.changes.submit(owned("high", cpu="2", priority=10))])
    assert outcome.node_name == "a"
    assert [victim.name for victim in outcome.victims] == ["low"]
    assert placed(made) == {"a": ["high"]}


def test_one_pod_that_fits_nowhere_is_not_taken_for_another_of_higher_priority() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), owned("low", "a", "2")])
    pods = [owned("equal", cpu="2"), owned("high", cpu="2", priority=10)]
    equal, high = made.schedule([made.changes.submit(pod) for pod in pods])
    assert (equal.node_name, high.node_name) == ("", "a")


def test_one_pod_that_may_not_preempt_is_not_taken_for_another_that_may() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), owned("low", "a", "2")])
    modest = owned("modest", cpu="2", priority=10, preemptionPolicy="Never")
    pods = [modest, owned("high", cpu="2", priority=10)]
    never, high = made.schedule([made.changes.submit(pod) for pod in pods])
    assert (never.node_name, high.node_name) == ("", "a")


def test_what_fits_nowhere_without_preemption_may_preempt_when_it_is_asked_again() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), owned("low", "a", "2")])
    high = made.changes.submit(owned("high", cpu="2", priority=10))
    assert [made.schedule([high], preempt=p)[0].node_name for p in (False, True)] == ["", "a"]


def test_a_preemption_can_be_undone() -> None:
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), owned("low", "a", "2")])
    with made.changes.trial():
        made.schedule([made.changes.submit(owned("high", cpu="2", priority=10))])
    assert placed(made) == {"a": ["low"]}
    assert not made.cluster.nominator.nodes()


def test_a_gated_pod_is_not_scheduled() -> None:
    made = world([node("a")])
    spec = {"containers": [container()], "schedulingGates": [{"name": "not-yet"}]}
    [outcome] = made.schedule([made.changes.submit(pod("gated", spec))])
    assert outcome.node_name == ""
    assert "SchedulingGates" in outcome.message


def test_a_pod_of_another_scheduler_is_decided_on_by_the_first_profile() -> None:
    made = world([node("a")])
    [outcome] = made.schedule([made.changes.submit(owned("theirs", schedulerName="other"))])
    assert outcome.node_name == "a"


def test_waiting_pods_come_in_the_order_of_the_queue() -> None:
    late = owned("late", metadata={"creationTimestamp": "2026-01-02T00:00:00Z"})
    early = owned("early", metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    urgent = owned("urgent", priority=5, metadata={"creationTimestamp": "2026-01-03T00:00:00Z"})
    theirs = owned("theirs", schedulerName="other")
    made = world([late, early, urgent, theirs, node("a"), owned("runs", "a")])
    assert [pod.name for pod in made.pending()] == ["urgent", "early", "late"]


@pytest.mark.parametrize("seed", range(5))
def test_pods_handed_over_together_go_where_they_would_go_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [node(f"n{i}", allocatable={"cpu": str(chance.randint(1, 9)), "pods": "9"})
             for i in range(6)]  # fmt: skip
    pods = [owned(f"p{i}", cpu=chance.choice(("500m", "1", "2"))) for i in range(40)]
    pods.sort(key=lambda made: made.spec.containers[0].resources.requests["cpu"])
    together, single = world(nodes), world(nodes)
    at_once = together.schedule([together.changes.submit(made) for made in pods])
    one_by_one = [single.schedule([single.changes.submit(made)])[0] for made in pods]
    assert [one.node_name for one in at_once] == [one.node_name for one in one_by_one]


def test_members_of_a_gang_are_placed_together_or_not_at_all() -> None:
    room = node("a", allocatable={"cpu": "3", "pods": "10"})
    for minimum, placed_members in ((4, 0), (3, 3)):
        group, members = gang("train", minimum, 4)
        made = world([room, group])
        infos = [made.changes.submit(member) for member in members]
        alone = made.changes.submit(owned("alone"))
        outcomes = made.schedule([infos[0], alone, *infos[1:]])
        assert [one.pod.name for one in outcomes] == [
            "train-0", "alone", "train-1", "train-2", "train-3",
        ]  # fmt: skip
        assert sum(1 for one in outcomes if one.node_name and one.pod.group) == placed_members
        assert bool(outcomes[1].node_name) == (placed_members == 0), "the gang comes first"
        assert all(one.message for one in outcomes if not one.node_name)


def test_a_gang_takes_the_place_of_its_victims() -> None:
    group, members = gang("train", 2, 2, cpu="2", priority=10)
    low = [owned("low-0", "a", "2"), owned("low-1", "b", "2")]
    size = {"cpu": "2", "pods": "10"}
    made = world([node("a", allocatable=size), node("b", allocatable=size), *low, group])
    outcomes = made.schedule([made.changes.submit(member) for member in members])
    assert sorted(one.node_name for one in outcomes) == ["a", "b"]
    victims = {victim.name for one in outcomes for victim in one.victims}
    assert victims == {"low-0", "low-1"}
    assert sorted(name for names in placed(made).values() for name in names) == [
        "train-0",
        "train-1",
    ]


def test_members_that_a_gang_can_start_without_may_preempt_afterwards() -> None:
    group, members = gang("train", 1, 3, cpu="2", priority=10)
    size = {"cpu": "2", "pods": "10"}
    low = [owned(f"low-{name}", name, "2") for name in ("b", "c")]
    made = world([*(node(name, allocatable=size) for name in ("a", "b", "c")), *low, group])
    outcomes = made.schedule([made.changes.submit(member) for member in members])
    assert sorted(one.node_name for one in outcomes) == ["a", "b", "c"]
    assert sorted(victim.name for one in outcomes for victim in one.victims) == ["low-b", "low-c"]
    assert [one.pod.name for one in outcomes] == ["train-0", "train-1", "train-2"]


def test_what_a_gang_reserved_in_a_trial_is_free_again() -> None:
    group, members = gang("train", 2, 2)
    made = world([node("a", allocatable={"cpu": "2", "pods": "10"}), group])
    infos = [made.changes.submit(member) for member in members]
    for _ in range(2):
        with made.changes.trial():
            assert [one.node_name for one in made.schedule(infos)] == ["a", "a"]
    assert placed(made) == {"a": []}


def test_members_wait_until_their_gang_is_complete() -> None:
    group, members = gang("train", 3, 2)
    made = world([node("a"), group])
    outcomes = made.schedule([made.changes.submit(member) for member in members])
    assert [one.message.partition(": ")[0] for one in outcomes] == ["GangScheduling"] * 2


def test_what_is_placed_on_a_copy_is_not_placed_in_the_cluster_it_is_of() -> None:
    group, members = gang("train", 2, 2)
    made = world([node("a"), group])
    infos = [made.changes.submit(member) for member in members]
    single = made.changes.submit(owned("single"))
    copied = World.on_copy(made._cache, made.profiles.runtimes)
    with copied.changes.trial():
        assert [one.node_name for one in copied.schedule([*infos, single])] == ["a"] * 3
        assert [pod.node_name for pod in (*infos, single)] == [""] * 3
    assert [pod.node_name for pod in (*infos, single)] == [""] * 3
    assert placed(made) == {"a": []}


@pytest.mark.parametrize("minimum", [0, 2], ids=["a pod", "a group"])
def test_a_copy_is_freed_after_its_last_question(minimum: int) -> None:
    group, members = gang("train", minimum, 2, cpu="3", priority=10)
    made = world([node("a"), owned("held", "a", cpu="3"), group])
    asked = [made.changes.submit(one) for one in (members if minimum else [owned("single")])]
    copied = World.on_copy(made._cache, made.profiles.runtimes)
    gone = weakref.ref(copied.cluster)
    with copied.changes.trial():
        copied.schedule(asked)
    del copied
    gc.collect()
    assert gone() is None


def test_what_one_class_reads_of_a_node_in_a_trial_is_not_what_another_reads_after_it() -> None:
    cordoned = node("cordoned", unschedulable=True)
    made = world([node("n"), cordoned, owned("small"), owned("large", cpu="2")])
    large, small = made.pending()
    for waiting in (large, small):
        assert len(made.evaluation(waiting).feasible_rows) == 1
    with made.changes.trial():
        made.changes.cordon("n")
        assert not len(made.evaluation(small).feasible_rows)
    assert len(made.evaluation(large).feasible_rows) == 1
    assert made.schedule([large])[0].node_name == "n"


def test_members_that_have_waited_longest_get_the_room() -> None:
    group, members = gang("train", 1, 2)
    for member, created in zip(members, (2, 1), strict=True):
        member.metadata.creation_timestamp.seconds = created
    made = world([node("a", allocatable={"cpu": "1", "pods": "10"}), group])
    outcomes = made.schedule([made.changes.submit(member) for member in members])
    assert [one.node_name for one in outcomes] == ["", "a"]


def test_a_pod_that_must_be_near_a_later_one_is_tried_again() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "host"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    made = world([node(name, labels={"host": name}) for name in ("a", "b")])
    near = owned("near", affinity={"podAffinity": required})
    pods = [made.changes.submit(one) for one in (near, owned("db", owner="db"))]
    first, second = made.schedule(pods)
    assert first.node_name == second.node_name != ""
