"""Copies of nodes with devices of their own."""

from __future__ import annotations

from podsched.api.manifest import from_manifest
from podsched.api.node_copies import NodeDevices, NodeParts, copy_of_node
from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import CSINode, Pod, ResourceSlice
from support.device_objects import devices
from support.volume_world import csi_node
from support.whatif_world import node, owned


def test_a_copy_has_its_own_host_name_and_takes_pods() -> None:
    copy = copy_of_node(node("a", labels={HOSTNAME: "a", "zone": "z"}, unschedulable=True), "b")
    assert copy.metadata.name == "b"
    assert dict(copy.metadata.labels) == {HOSTNAME: "b", "zone": "z"}
    assert not copy.spec.unschedulable


def test_a_copy_has_as_many_devices_in_a_pool_of_its_own() -> None:
    [piece] = NodeDevices([devices("a", 2), devices("b", 3)]).copies("a", "c")
    assert piece.spec.node_name == "c"
    assert piece.spec.pool.name == "c"
    assert piece.spec.pool.resource_slice_count == 1
    assert [device.name for device in piece.spec.devices] == ["gpu-0", "gpu-1"]


def test_pools_of_other_names_stay_apart() -> None:
    first, second = devices("a", 1), devices("a", 1)
    for piece, pool in ((first, "left"), (second, "right")):
        piece.metadata.name = piece.spec.pool.name = pool
    names = [piece.spec.pool.name for piece in NodeDevices([first, second]).copies("a", "c")]
    assert names == ["left-of-c", "right-of-c"]


def test_slices_that_other_nodes_reach_are_not_copied_and_not_counted() -> None:
    mine, others = devices("a", 1), devices("b", 1)
    for piece in (mine, others):
        piece.spec.pool.name, piece.spec.pool.resource_slice_count = "network", 2
    [piece] = NodeDevices([mine, others]).copies("a", "c")
    assert piece.spec.pool.resource_slice_count == 1


def test_a_copy_is_ready_and_keeps_the_taints_that_keep_pods_away() -> None:
    keys = ("node.kubernetes.io/not-ready", "gpu", "node.kubernetes.io/unschedulable")
    taints = [{"key": key, "effect": "NoSchedule"} for key in keys]
    assert [taint.key for taint in copy_of_node(node("a", taints=taints), "b").spec.taints] == [
        "gpu"
    ]


def test_the_csi_node_and_the_running_pods_of_daemon_sets_come_with_a_copy() -> None:
    logs = [owned(f"logs-{on}", on, kind="DaemonSet", owner="logs") for on in "ab"]
    ended = owned("logs-old", "a", kind="DaemonSet", owner="logs")
    ended.status.phase = "Failed"
    drivers = from_manifest(csi_node("a", {"csi.example.com": 5})).message
    made = NodeParts([*logs, ended, owned("web-0", "a"), drivers, devices("a", 1)])
    slices, drivers_of_copy, daemon = made.copies("a", "c")
    assert isinstance(slices, ResourceSlice) and slices.spec.node_name == "c"
    assert isinstance(drivers_of_copy, CSINode) and drivers_of_copy.metadata.name == "c"
    assert [driver.name for driver in drivers_of_copy.spec.drivers] == ["csi.example.com"]
    assert isinstance(daemon, Pod) and daemon.spec.node_name == "c"
    assert (daemon.metadata.name, daemon.metadata.uid) == ("logs-a-on-c", "uid-logs-a-on-c")
