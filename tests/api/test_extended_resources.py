"""Which DeviceClass provides which extended resource."""

from __future__ import annotations

import pytest

from podsched.api.extended_resources import (
    classes_by_resource,
    extended_claim_owner,
    is_extended,
    may_be_devices,
)
from podsched.v1 import objects_pb2 as v1

GPU = "example.com/gpu"
OWN = "deviceclass.resource.kubernetes.io/"


def device_class(name: str, resource: str = "", created: int = 0) -> v1.DeviceClass:
    made = v1.DeviceClass()
    made.metadata.name = name
    made.metadata.creation_timestamp.seconds = created
    made.spec.extended_resource_name = resource
    return made


@pytest.mark.parametrize(
    ("name", "extended", "devices"),
    [
        ("cpu", False, False),
        ("hugepages-2Mi", False, False),
        (GPU, True, True),
        ("kubernetes.io/batch", False, False),
        ("requests.example.com/gpu", False, False),
        (f"{OWN}gpu", False, True),
    ],
)
def test_extended_resources_and_the_own_resources_of_classes_may_be_devices(
    name: str, extended: bool, devices: bool
) -> None:
    assert (is_extended(name), may_be_devices(name)) == (extended, devices)


def test_each_class_provides_a_resource_of_its_own_name_and_the_one_that_it_names() -> None:
    classes = [device_class("a", GPU), device_class("b")]
    assert classes_by_resource(classes) == {GPU: "a", f"{OWN}a": "a", f"{OWN}b": "b"}


@pytest.mark.parametrize("reverse", [False, True])
def test_of_several_classes_the_newest_provides_a_resource_then_the_first_by_name(
    reverse: bool,
) -> None:
    classes = [device_class("a", GPU, 1), device_class("c", GPU, 2), device_class("b", GPU, 2)]
    assert classes_by_resource(classes[::-1] if reverse else classes)[GPU] == "b"


def test_only_an_annotated_claim_that_a_pod_controls_is_for_extended_resources() -> None:
    claim = v1.ResourceClaim()
    owner = claim.metadata.owner_references.add(api_version="v1", kind="Pod", name="p", uid="u")
    assert extended_claim_owner(claim) == ""
    claim.metadata.annotations["resource.kubernetes.io/extended-resource-claim"] = "true"
    assert extended_claim_owner(claim) == ""
    owner.controller = True
    assert extended_claim_owner(claim) == "u"
