"""What every namespace has: a default ServiceAccount, and the root CA."""

from __future__ import annotations

import pytest

from podsched.api.objects import AnyObject, ConfigMap, Namespace, ServiceAccount, timestamp
from podsched.term.controllers.namespace_objects import RootCaPublisher, ServiceAccountController
from support.controller_world import START, ControllerWorld

MAP = "team-a/kube-root-ca.crt"


@pytest.fixture
def world() -> ControllerWorld:
    return ControllerWorld()


def namespace(name: str = "team-a", *, terminating: bool = False) -> Namespace:
    item = Namespace(metadata={"name": name})
    if terminating:
        item.metadata.deletion_timestamp.CopyFrom(timestamp(START))
    return item


def published(world: ControllerWorld) -> ConfigMap:
    found = world.get("ConfigMap", MAP)
    assert isinstance(found, ConfigMap)
    return found


def test_namespaces_old_and_new_get_a_default_account(world: ControllerWorld) -> None:
    world.put(namespace("old"))
    world.start(ServiceAccountController(world, world))
    world.put(namespace("new"))
    world.settle()
    assert sorted(world.objects("ServiceAccount")) == ["new/default", "old/default"]


def test_a_deleted_account_is_made_again(world: ControllerWorld) -> None:
    world.put(namespace())
    world.start(ServiceAccountController(world, world))
    world.remove("ServiceAccount", "team-a/default")
    world.settle()
    assert list(world.objects("ServiceAccount")) == ["team-a/default"]


def test_an_account_that_is_there_is_left_alone(world: ControllerWorld) -> None:
    own = ServiceAccount(metadata={"namespace": "team-a", "name": "default", "uid": "own"})
    world.put(own)
    world.put(namespace())
    world.start(ServiceAccountController(world, world))
    found = world.get("ServiceAccount", "team-a/default")
    assert found is not None and found.metadata.uid == "own"


def test_a_terminating_namespace_gets_nothing(world: ControllerWorld) -> None:
    world.put(namespace(terminating=True))
    world.start(ServiceAccountController(world, world))
    assert not world.objects("ServiceAccount")


def test_the_root_ca_is_published(world: ControllerWorld) -> None:
    world.put(namespace())
    world.start(RootCaPublisher(world, world, "PEM"))
    assert published(world).data["ca.crt"] == "PEM"


def test_new_certificates_replace_those_published_before(world: ControllerWorld) -> None:
    world.put(namespace())
    world.start(RootCaPublisher(world, world, "old"))
    world.start(RootCaPublisher(world, world, "new"))
    assert published(world).data["ca.crt"] == "new"


def test_what_another_publisher_has_put_there_stays(world: ControllerWorld) -> None:
    """Of kube-controller-manager, which changes the content and keeps the annotations."""
    world.put(namespace())
    world.start(RootCaPublisher(world, world, "ours"))
    changed = published(world)
    changed.data["ca.crt"] = "theirs"
    world.put(changed)
    world.settle()
    assert published(world).data["ca.crt"] == "theirs"
    own = ConfigMap(metadata={"namespace": "team-b", "name": "kube-root-ca.crt"})
    own.data["ca.crt"] = "theirs"
    world.put(own)
    world.put(namespace("team-b"))
    world.settle()
    found = world.get("ConfigMap", "team-b/kube-root-ca.crt")
    assert isinstance(found, ConfigMap) and found.data["ca.crt"] == "theirs"


def test_a_namespace_that_cannot_be_handled_does_not_stop_the_others(
    world: ControllerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = ServiceAccountController(world, world)
    made = controller._made

    def failing(name: str) -> AnyObject:
        if name == "bad":
            raise IndexError("a bug")
        return made(name)

    monkeypatch.setattr(controller, "_made", failing)
    for name in ("bad", "good"):
        world.put(namespace(name))
    world.start(controller)
    assert list(world.objects("ServiceAccount")) == ["good/default"]
    assert world.faults == ["Namespace bad: IndexError"]
