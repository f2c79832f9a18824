"""Devices of hollow nodes: how they are named, and the slices that are made of them."""

from __future__ import annotations

import pytest

from podsched.api.hollow_nodes import (
    DEVICES_ANNOTATION,
    BadDevicesError,
    class_of,
    parse_devices,
    slices_of,
)
from podsched.api.objects import Node, ResourceSlice
from podsched.api.validation.devices import validate_device_class
from podsched.api.validation.place import Place
from podsched.api.validation.resource_slices import validate_resource_slice


def slices(devices: str, name: str = "a") -> list[ResourceSlice]:
    node = Node()
    node.metadata.name, node.metadata.uid = name, "u"
    node.metadata.annotations[DEVICES_ANNOTATION] = devices
    return slices_of(node)


@pytest.mark.parametrize(
    "text, says",
    [
        ("h100.example.com", "must be COUNTxDRIVER[:gpu|mig|nic], such as"),
        ("8x", "must be COUNTxDRIVER"),
        ("x.example.com", "must be COUNTxDRIVER"),
        ("-1xa.example", "must be COUNTxDRIVER"),
        ("²xa.example", "must be COUNTxDRIVER"),
        ("0xa.example", "the count must be from 1 to 128"),
        ("129xa.example", "the count must be from 1 to 128"),
        ("9" * 5000 + "xa.example", "the count must be from 1 to 128"),
        ("8xa.example:fpga", "the shape must be one of gpu, mig, nic"),
        ("8xa.example:", "the shape must be one of gpu, mig, nic"),
        ("8xA.example", "the driver is not a name: a lowercase RFC 1123 subdomain"),
        ("8x" + "a" * 64, "the driver must have at most 63 bytes"),
        ("1xa.example,2xa.example", "must name each driver once"),
        ("1xa.example,", "must be COUNTxDRIVER"),
        (",".join(f"1xa{n}" for n in range(9)), "at most 8 drivers, not 9"),
    ],
)
def test_wrong_devices_are_refused_with_the_value_and_what_to_do(text: str, says: str) -> None:
    with pytest.raises(BadDevicesError) as refused:
        parse_devices(text)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("shape", ["gpu", "mig", "nic"])
@pytest.mark.parametrize("count", [1, 8, 128])
def test_slices_and_classes_pass_the_validation_of_the_api_server(shape: str, count: int) -> None:
    text = f"{count}xh100.example.com:{shape}"
    for piece in slices(text, "n" * 200):
        at = Place()
        validate_resource_slice(at, piece)
        assert not list(at.errors)
    at = Place()
    validate_device_class(at, class_of(parse_devices(text)[0]))
    assert not list(at.errors)


def test_a_gpu_has_the_nvlink_domain_of_four_and_the_pcie_root_of_two() -> None:
    [piece] = slices("8xh100.example.com")
    found = [
        (
            device.attributes["nvlinkDomain"].int_value,
            device.attributes["resource.kubernetes.io/pcieRoot"].string_value,
        )
        for device in piece.spec.devices
    ]
    assert [domain for domain, _ in found] == [0] * 4 + [1] * 4
    assert [root for _, root in found][:4] == ["pci0000:00"] * 2 + ["pci0000:01"] * 2


def test_a_network_card_has_the_pcie_root_of_two_gpus() -> None:
    gpus, nics = slices("4xgpu.example,2xnic.example:nic")
    root = "resource.kubernetes.io/pcieRoot"
    of_gpus = [device.attributes[root].string_value for device in gpus.spec.devices]
    of_nics = [device.attributes[root].string_value for device in nics.spec.devices]
    assert of_gpus == [of_nics[0], of_nics[0], of_nics[1], of_nics[1]]


def test_partitions_take_the_counters_of_their_gpu() -> None:
    counters, devices = slices("2xh100.example.com:mig")
    assert [of.name for of in counters.spec.shared_counters] == ["gpu-0", "gpu-1"]
    assert len(devices.spec.devices) == 2 * 14
    taken = {
        device.name: (of.counter_set, len(of.counters))
        for device in devices.spec.devices
        for of in device.consumes_counters
    }
    assert taken["gpu-1-mig-3g40gb-4"] == ("gpu-1", 4)
    assert taken["gpu-0-mig-7g80gb-0"] == ("gpu-0", 8)
    assert {piece.spec.pool.resource_slice_count for piece in (counters, devices)} == {2}


def test_the_devices_of_two_nodes_are_equal() -> None:
    [one], [other] = slices("8xa.example", "a"), slices("8xa.example", "b")
    assert list(one.spec.devices) == list(other.spec.devices)


def test_slices_belong_to_their_node_and_leave_with_it() -> None:
    [piece] = slices("8xa.example")
    [owner] = piece.metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "a", "u", True)


def test_a_node_without_the_annotation_has_no_devices() -> None:
    assert slices_of(Node()) == []
