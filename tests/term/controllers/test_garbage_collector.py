"""The garbage collector: dependents go with their owners, or before them, or stay."""

from __future__ import annotations

import pytest

from podsched.api.objects import (
    AnyObject,
    ConfigMap,
    Node,
    PersistentVolumeClaim,
    ReplicaSet,
    copy_of,
)
from podsched.term.controllers.garbage_collector import GarbageCollector
from podsched.term.controllers.write_queues import AbsentObject
from support.controller_world import ControllerWorld, bound_pod, ready_node

_VERSIONS = {"ReplicaSet": "apps/v1", "Rollout": "argoproj.io/v1alpha1"}


def replica_set(name: str, uid: str = "") -> ReplicaSet:
    item = ReplicaSet()
    item.metadata.name, item.metadata.namespace, item.metadata.uid = name, "default", uid or name
    return item


def own(item: AnyObject, kind: str, name: str, uid: str = "", *, blocks: bool = False) -> AnyObject:
    """Give an object one more owner."""
    item.metadata.owner_references.add(
        api_version=_VERSIONS.get(kind, "v1"),
        kind=kind,
        name=name,
        uid=uid or name,
        block_owner_deletion=blocks or None,
    )
    return item


def owned(name: str, owner: str = "rs", *, blocks: bool = False) -> AnyObject:
    return own(bound_pod(name), "ReplicaSet", owner, blocks=blocks)


def names(world: ControllerWorld, kind: str = "Pod") -> list[str]:
    return sorted(item.metadata.name for item in world.objects(kind).values())


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(GarbageCollector(world, world))
    return world


def test_dependents_go_with_their_owner(world: ControllerWorld) -> None:
    world.put(replica_set("rs"))
    for item in (owned("a"), owned("b"), bound_pod("nobodys")):
        world.put(item)
    world.settle()
    assert not world.deleted
    world.remove("ReplicaSet", "default/rs")
    world.settle()
    assert world.deleted == ["Pod default/a Background", "Pod default/b Background"]
    assert names(world) == ["nobodys"]


def test_an_owner_of_the_same_name_is_another(world: ControllerWorld) -> None:
    world.put(replica_set("rs", uid="new"))
    world.put(own(bound_pod("of-the-old"), "ReplicaSet", "rs", "old"))
    world.put(own(bound_pod("of-the-new"), "ReplicaSet", "rs", "new"))
    world.settle()
    assert names(world) == ["of-the-new"]


def test_an_owner_that_is_replaced_under_its_name_is_gone(world: ControllerWorld) -> None:
    world.put(replica_set("rs"))
    world.put(owned("a"))
    world.put(replica_set("rs", uid="new"))
    world.settle()
    assert not names(world)


def test_dependents_of_dependents_go_too(world: ControllerWorld) -> None:
    world.put(replica_set("rs"))
    pod = world.put(owned("a"))
    claim = PersistentVolumeClaim()
    claim.metadata.name, claim.metadata.namespace = "data", "default"
    world.put(own(claim, "Pod", "a", pod.metadata.uid))
    world.remove("ReplicaSet", "default/rs")
    world.settle()
    assert not names(world) and not names(world, "PersistentVolumeClaim")


@pytest.mark.parametrize("members", ["ab", "abc"])
def test_objects_that_own_each_other_do_not_wait_for_ever(
    world: ControllerWorld, members: str
) -> None:
    for name, owner in zip(members, members[1:] + members[0], strict=True):
        world.put(own(replica_set(name), "ReplicaSet", owner, blocks=True))
    first = world.get("ReplicaSet", "default/a")
    assert first is not None
    world.mark(first, "Foreground")
    world.settle()
    assert not names(world, "ReplicaSet")


def test_one_owner_that_is_left_keeps_it_without_the_others(world: ControllerWorld) -> None:
    world.put(replica_set("rs"))
    world.put(replica_set("other"))
    world.put(own(owned("a"), "ReplicaSet", "other"))
    world.remove("ReplicaSet", "default/rs")
    world.settle()
    assert [r.name for r in world.pod("default/a").metadata.owner_references] == ["other"]
    world.remove("ReplicaSet", "default/other")
    world.settle()
    assert not names(world)


@pytest.mark.parametrize(
    ("kind", "version"),
    [("Rollout", "argoproj.io/v1alpha1"), ("Service", "serving.knative.dev/v1"), ("Event", "v1")],
)
def test_owners_of_kinds_that_are_kept_elsewhere_are_not_judged(
    world: ControllerWorld, kind: str, version: str
) -> None:
    pod = own(bound_pod("a"), kind, "owner")
    pod.metadata.owner_references[0].api_version = version
    world.put(pod)
    world.settle()
    assert names(world) == ["a"]


def test_an_owner_that_only_the_api_server_has_is_not_gone(world: ControllerWorld) -> None:
    """The informer leaves out what it cannot decode."""
    world.hidden.add(AbsentObject("ReplicaSet", "default", "rs", "rs"))
    world.put(owned("a"))
    world.settle()
    assert names(world) == ["a"]


def test_a_cluster_wide_object_can_own_those_in_namespaces(world: ControllerWorld) -> None:
    world.put(ready_node("n1"))
    uid = world.node("n1").metadata.uid
    settings = ConfigMap()
    settings.metadata.name, settings.metadata.namespace = "settings", "default"
    world.put(own(settings, "Node", "n1", uid))
    world.settle()
    assert names(world, "ConfigMap") == ["settings"]
    world.remove("Node", "n1")
    world.settle()
    assert not names(world, "ConfigMap")


def test_what_a_cluster_consists_of_is_kept(world: ControllerWorld) -> None:
    """It holds no owner that is deleted in the foreground, either."""
    owner = world.put(ready_node("owner"))
    world.put(own(ready_node("n1"), "Node", "owner", owner.metadata.uid, blocks=True))
    world.mark(owner, "Foreground")
    world.settle()
    assert names(world, "Node") == ["n1"] and not world.deleted


def test_a_cluster_wide_object_is_not_owned_by_one_in_a_namespace(world: ControllerWorld) -> None:
    node = own(Node(), "ReplicaSet", "rs")
    node.metadata.name = "n1"
    world.put(node)
    world.settle()
    assert names(world, "Node") == ["n1"]


def test_a_pod_that_terminates_is_left_to_its_grace_period(world: ControllerWorld) -> None:
    pod = owned("a")
    pod.metadata.finalizers.append("example.com/hold")
    world.put(replica_set("rs"))
    world.mark(world.put(pod))
    world.remove("ReplicaSet", "default/rs")
    world.settle()
    assert not world.deleted and names(world) == ["a"]


def test_in_the_foreground_dependents_go_first(world: ControllerWorld) -> None:
    """Those that block hold the owner; the others go with them."""
    rs = world.put(replica_set("rs"))
    held = owned("held", blocks=True)
    held.metadata.finalizers.append("example.com/hold")
    for item in (held, owned("a", blocks=True), owned("b")):
        world.put(item)
    world.mark(rs, "Foreground")
    world.settle()
    assert names(world) == ["held"] and names(world, "ReplicaSet") == ["rs"]
    pod = world.pod("default/held")
    del pod.metadata.finalizers[:]
    world.remove("Pod", "default/held")
    world.settle()
    assert not names(world) and not names(world, "ReplicaSet")


def test_in_the_foreground_nothing_that_does_not_block_holds_the_owner(
    world: ControllerWorld,
) -> None:
    held = owned("held")
    held.metadata.finalizers.append("example.com/hold")
    rs = world.put(replica_set("rs"))
    world.put(held)
    world.mark(rs, "Foreground")
    world.settle()
    assert not names(world, "ReplicaSet")


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_a_dependent_that_comes_after_the_others_stays_until_its_owner_is_gone(
    world: ControllerWorld, policy: str
) -> None:
    held = replica_set("rs")
    held.metadata.finalizers.append("example.com/hold")
    world.mark(world.put(held), policy)
    world.settle()
    world.put(owned("late"))
    world.settle()
    assert [r.name for r in world.pod("default/late").metadata.owner_references] == ["rs"]
    world.remove("ReplicaSet", "default/rs")
    world.settle()
    assert not names(world)


def test_a_dependent_with_dependents_is_deleted_in_the_foreground_too(
    world: ControllerWorld,
) -> None:
    rs = world.put(replica_set("rs"))
    pod = world.put(owned("a", blocks=True))
    claim = PersistentVolumeClaim()
    claim.metadata.name, claim.metadata.namespace = "data", "default"
    world.put(own(claim, "Pod", "a", pod.metadata.uid, blocks=True))
    world.mark(rs, "Foreground")
    world.settle()
    assert world.deleted[0] == "Pod default/a Foreground"
    assert not any(names(world, k) for k in ("ReplicaSet", "Pod", "PersistentVolumeClaim"))


def test_orphans_stay_and_name_the_owner_no_more(world: ControllerWorld) -> None:
    rs = world.put(replica_set("rs"))
    world.put(owned("a"))
    world.put(own(owned("b"), "Rollout", "d"))
    world.mark(rs, "Orphan")
    world.settle()
    assert not names(world, "ReplicaSet") and not world.deleted
    assert not world.pod("default/a").metadata.owner_references
    assert [r.kind for r in world.pod("default/b").metadata.owner_references] == ["Rollout"]


def test_dependents_that_hold_their_owner_are_orphaned_if_it_is_deleted_again_without_them(
    world: ControllerWorld,
) -> None:
    """So an administrator gets rid of an owner whose pods do not end."""
    rs = world.put(replica_set("rs"))
    held = owned("held", blocks=True)
    held.metadata.finalizers.append("example.com/hold")
    world.put(held)
    world.mark(rs, "Foreground")
    world.settle()
    again = copy_of(world.objects("ReplicaSet")["default/rs"])
    again.metadata.finalizers[:] = ["orphan"]
    world.put(again)
    world.settle()
    assert not names(world, "ReplicaSet")
    assert not world.pod("default/held").metadata.owner_references


def test_a_dependent_is_kept_if_its_owner_is_deleted_again_without_it_before_its_turn(
    world: ControllerWorld,
) -> None:
    rs = world.put(replica_set("rs"))
    world.put(owned("a"))
    world.mark(rs, "Foreground")
    assert world.controller is not None
    world.controller.work(world.now)
    assert world.pending_deletions == ["Pod default/a"]
    again = copy_of(world.objects("ReplicaSet")["default/rs"])
    again.metadata.finalizers[:] = ["orphan"]
    world.put(again)
    world.settle()
    assert names(world) == ["a"]


@pytest.mark.parametrize(("policy", "left"), [("Foreground", []), ("Orphan", ["a"])])
def test_a_new_leader_goes_on_where_the_last_one_stopped(policy: str, left: list[str]) -> None:
    world = ControllerWorld()
    world.put(owned("of-one-long-gone", "gone"))
    world.put(owned("a", blocks=True))
    world.mark(world.put(replica_set("rs")), policy)
    world.start(GarbageCollector(world, world))
    assert names(world) == left and not names(world, "ReplicaSet")


def test_many_dependents_are_decided_on_in_turns(world: ControllerWorld) -> None:
    world.put(replica_set("rs"))
    for number in range(1200):
        world.put(owned(f"p{number}"))
    world.settle()
    world.remove("ReplicaSet", "default/rs")
    assert world.controller is not None
    assert world.controller.work(world.now) is not None
    assert len(world.pending_deletions) == 500
    world.settle()
    assert not names(world)
