"""Less that is asked of devices: it makes the pod fit, and is the least that does."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import copy_of
from podsched.ask.explain.changes.devices import drop_from_claim, fewer_devices
from podsched.ask.explain.changes.pods_gone import pods_gone
from podsched.ask.explain.changes.question import Kind
from podsched.ask.whatif.world import World
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change
from support.device_objects import device_class, devices, resource_claim, template, user
from support.engine_world import container, pod
from support.examples import examples
from support.whatif_world import node, owned, world

MODEL = "gpu.example.com/model"
IS_A = 'device.attributes["gpu.example.com"].model == "a"'


def cluster(models: list[str]) -> list[Any]:
    """Nodes with a device for each letter, its model."""
    found: list[Any] = [device_class()]
    for number, of in enumerate(models):
        name = f"n{number}"
        found.append(node(name))
        if of:
            found.append(devices(name, len(of), attributes={MODEL: [*of]}))
    return found


def waiting(objects: list[Any], claim: v1.ResourceClaim) -> World:
    """A world with a pod that uses a claim."""
    return world([*objects, claim, user("p", claim="mine")])


def fits(objects: list[Any], claim: v1.ResourceClaim) -> int:
    """On how many nodes a pod with this claim fits."""
    made = waiting(objects, claim)
    return len(made.question(made.pending()[0]).feasible(made.pending()[0]))


def asked(made: World, kind: Kind) -> Change | None:
    question = made.question(made.pending()[0])
    if kind is Kind.DEVICE_COUNT:
        return fewer_devices(question)
    return drop_from_claim(question, kind)


@given(
    models=st.lists(st.text("ab", max_size=6), min_size=1, max_size=3),
    count=st.integers(1, 6),
    selector=st.sampled_from(((), (IS_A,))),
    match=st.sampled_from(("", MODEL)),
)
@examples(60)
def test_the_largest_number_and_what_can_be_dropped_are_those_with_which_the_pod_fits(
    models: list[str], count: int, selector: tuple[str, ...], match: str
) -> None:
    objects = cluster(models)
    claim = resource_claim("mine", *selector, count=count, match=match)
    if fits(objects, claim):
        return
    made = waiting(objects, claim)
    fewer = [
        number
        for number in range(1, count)
        if fits(objects, resource_claim("mine", *selector, count=number, match=match))
    ]
    found = asked(made, Kind.DEVICE_COUNT)
    assert (found is not None) is bool(fewer)
    if found is not None:
        assert found.cost == count - max(fewer)
        patched = apply_merge_patch(claim, yaml.safe_load(found.patch)).message
        assert isinstance(patched, v1.ResourceClaim)
        assert found.nodes == fits(objects, patched)
    for kind, less in (
        (Kind.DEVICE_SELECTOR, resource_claim("mine", count=count, match=match)),
        (Kind.DEVICE_CONSTRAINT, resource_claim("mine", *selector, count=count)),
    ):
        may_be_dropped = selector if kind is Kind.DEVICE_SELECTOR else match
        nodes = fits(objects, less) if may_be_dropped else 0
        dropped = asked(made, kind)
        assert (dropped.nodes if dropped is not None else 0) == nodes


def test_the_patch_is_of_the_claim_or_of_its_template() -> None:
    objects = cluster(["aa"])
    made = waiting(objects, resource_claim("mine", count=3))
    found = asked(made, Kind.DEVICE_COUNT)
    assert found is not None
    assert found.patched == "ResourceClaim default/mine"
    assert "count: 2" in found.patch
    assert found.patch.startswith("spec:\n  devices:")
    made = world([*objects, template("three", count=3), user("p", template="three")])
    found = asked(made, Kind.DEVICE_COUNT)
    assert found is not None
    assert found.patched == "ResourceClaimTemplate default/three"
    assert found.patch.startswith("spec:\n  spec:\n    devices:")


def test_the_selector_or_constraint_is_dropped_that_makes_the_pod_fit() -> None:
    made = waiting(cluster(["ab", "b"]), resource_claim("mine", count=2, match=MODEL))
    found = asked(made, Kind.DEVICE_CONSTRAINT)
    assert found is not None
    assert found.description == (
        f"in claim mine, drop the constraint that all devices have the same {MODEL}"
    )
    assert found.examples == ["n0"]
    assert asked(made, Kind.DEVICE_SELECTOR) is None
    made = waiting(cluster(["bb"]), resource_claim("mine", "true", IS_A, count=2, match=MODEL))
    found = asked(made, Kind.DEVICE_SELECTOR)
    assert found is not None
    assert found.description == f"in claim mine, drop selector {IS_A} of request gpus"


@pytest.mark.parametrize("extended", [False, True])
def test_the_user_of_a_device_is_a_pod_that_may_be_deleted(extended: bool) -> None:
    a_class = device_class(resource="example.com/gpu" if extended else "")

    def asks(name: str) -> v1.Pod:
        if not extended:
            return user(name, template="one")
        return pod(name, {"containers": [container({"cpu": "1", "example.com/gpu": "1"})]})

    made = world([node("n"), devices("n", 1), a_class, template("one")])
    made.schedule([made.changes.submit(asks("user"))])
    made.schedule([made.changes.submit(asks("waits"))])
    change = pods_gone(made.question(made.pending()[0]))
    assert change is not None
    assert [one.name for one in change.pods] == ["user"]


def test_the_user_of_a_device_may_be_deleted_where_requests_do_not_fit_either() -> None:
    made = world([node("n"), devices("n", 1), device_class(), template("one")])
    large = {"containers": [container({"cpu": "3"})]}
    for name in ("user", "waits"):
        made.schedule([made.changes.submit(user(name, template="one", **large))])
    change = pods_gone(made.question(made.pending()[0]))
    assert change is not None
    assert [one.name for one in change.pods] == ["user"]


def test_only_the_users_of_a_shared_claim_are_deleted_so_that_it_can_move_to_another_node() -> None:
    objects = [node("full"), devices("full", 1), device_class(), resource_claim("shared")]
    fills = [owned(name, "full", cpu="1900m") for name in ("a", "b")]
    made = world([*objects, *fills])
    made.schedule([made.changes.submit(user("user", claim="shared"))])
    made.changes.put_node(node("free"))
    with made.changes.part() as changes:
        changes.put("ResourceSlice", devices("free", 1))
    large = {"containers": [container({"cpu": "3"})]}
    waits = made.changes.submit(user("waits", claim="shared", **large))
    change = pods_gone(made.question(waits))
    assert change is not None
    assert [one.name for one in change.pods] == ["user"]
    assert change.examples == ["free"]


def test_the_user_of_a_device_may_be_deleted_before_its_claim_is_written() -> None:
    made = world([node("n"), devices("n", 1), device_class(), template("one")])
    for name in ("user", "waits"):
        made.schedule([made.changes.submit(user(name, template="one"))])
    [claim] = [of for of in made.cluster.list("ResourceClaim") if of.status.reserved_for]
    with made.changes.part() as changes:
        changes.put("ResourceClaim", copy_of(claim, ("status",)))
    made.cluster.assumed("ResourceClaim").assume(claim, lambda of: of.status.HasField("allocation"))
    change = pods_gone(made.question(made.pending()[0]))
    assert change is not None
    assert [one.name for one in change.pods] == ["user"]
