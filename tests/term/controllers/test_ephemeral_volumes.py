"""Claims of generic ephemeral volumes: made, owned, made again."""

from __future__ import annotations

import pytest

from podsched.api.objects import AnyObject, PersistentVolumeClaim, Pod
from podsched.serve.client.errors import Forbidden, Unavailable
from podsched.term.controllers.ephemeral_volumes import EphemeralVolumeController
from support.controller_world import ControllerWorld, bound_pod


@pytest.fixture
def world() -> ControllerWorld:
    world = ControllerWorld()
    world.start(EphemeralVolumeController(world, world, world))
    return world


def pod_with(*volumes: str, name: str = "web", uid: str = "u1") -> Pod:
    pod = bound_pod(name)
    pod.metadata.uid = uid
    pod.spec.volumes.add(name="plain").empty_dir.SetInParent()
    for volume in volumes:
        template = pod.spec.volumes.add(name=volume).ephemeral.volume_claim_template
        template.metadata.labels["tier"] = "scratch"
        template.metadata.annotations["why"] = "speed"
        template.spec.access_modes.append("ReadWriteOnce")
        template.spec.storage_class_name = "fast"
        template.spec.resources.requests["storage"] = "1Gi"
    return pod


def claims(world: ControllerWorld) -> dict[str, AnyObject]:
    return dict(world.objects("PersistentVolumeClaim"))


def test_each_ephemeral_volume_gets_a_claim_that_the_pod_controls(world: ControllerWorld) -> None:
    world.put(pod_with("scratch", "cache"))
    world.settle()
    assert sorted(claims(world)) == ["default/web-cache", "default/web-scratch"]
    claim = claims(world)["default/web-scratch"]
    assert isinstance(claim, PersistentVolumeClaim)
    assert claim.spec.resources.requests["storage"] == "1Gi"
    assert claim.spec.storage_class_name == "fast"
    assert (claim.metadata.labels["tier"], claim.metadata.annotations["why"]) == (
        "scratch",
        "speed",
    )
    owner = claim.metadata.owner_references[0]
    assert (owner.api_version, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "web", "u1")
    assert owner.controller and owner.block_owner_deletion


def test_a_pod_is_told_why_its_claim_cannot_be_created(world: ControllerWorld) -> None:
    world.refuse = lambda _: Forbidden("exceeded quota")
    world.put(pod_with("scratch"))
    world.settle()
    why = "ephemeral volume scratch: create PVC web-scratch: exceeded quota"
    assert world.events == [f"Pod web Warning FailedBinding: {why}"]


def test_an_outage_is_not_told_to_the_pod(world: ControllerWorld) -> None:
    world.refuse = lambda _: Unavailable("no server")
    world.put(pod_with("scratch"))
    world.settle()
    assert world.recorded == []


def test_a_claim_of_that_name_that_is_another_s_is_left_alone(world: ControllerWorld) -> None:
    other = PersistentVolumeClaim()
    other.metadata.name, other.metadata.namespace = "web-scratch", "default"
    world.put(other)
    world.put(pod_with("scratch"))
    world.settle()
    assert not claims(world)["default/web-scratch"].metadata.owner_references
    world.remove("PersistentVolumeClaim", "default/web-scratch")
    world.settle()
    assert claims(world)["default/web-scratch"].metadata.owner_references


def test_a_claim_that_is_deleted_under_its_pod_is_made_again(world: ControllerWorld) -> None:
    world.put(pod_with("scratch"))
    world.settle()
    world.remove("PersistentVolumeClaim", "default/web-scratch")
    world.settle()
    assert list(claims(world)) == ["default/web-scratch"]


def test_a_pod_gets_its_claim_once_a_pod_whose_claim_has_the_same_name_is_gone(
    world: ControllerWorld,
) -> None:
    world.put(pod_with("scratch", name="web-a", uid="u2"))
    world.put(pod_with("a-scratch", name="web", uid="u1"))
    world.settle()
    assert list(claims(world)) == ["default/web-a-scratch"]
    (first,) = claims(world)["default/web-a-scratch"].metadata.owner_references
    for name, uid in (("web-a", "u2"), ("web", "u1")):
        if uid == first.uid:
            world.remove("Pod", f"default/{name}")
    world.remove("PersistentVolumeClaim", "default/web-a-scratch")  # As the garbage collector does.
    world.settle()
    (second,) = claims(world)["default/web-a-scratch"].metadata.owner_references
    assert {first.uid, second.uid} == {"u1", "u2"}


def test_pods_that_are_deleted_or_gone_get_none(world: ControllerWorld) -> None:
    going = pod_with("scratch")
    going.metadata.deletion_timestamp.seconds = 1
    world.put(going)
    world.put(pod_with("scratch", name="gone", uid="u2"))
    world.remove("Pod", "default/gone")
    world.settle()
    assert not claims(world)


def test_a_pod_that_takes_the_place_of_another_gets_its_own(world: ControllerWorld) -> None:
    world.put(pod_with("scratch"))
    world.settle()
    world.put(pod_with("scratch", uid="u2"))
    world.remove("PersistentVolumeClaim", "default/web-scratch")
    world.settle()
    assert claims(world)["default/web-scratch"].metadata.owner_references[0].uid == "u2"


def test_a_new_leader_makes_what_is_missing() -> None:
    world = ControllerWorld()
    world.put(pod_with("scratch"))
    world.start(EphemeralVolumeController(world, world, world))
    assert list(claims(world)) == ["default/web-scratch"]
