"""NoDiskConflict: which disks two pods of a node cannot both mount."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.framework.status import Code
from podsched.legacy.no_disk_conflict import NoDiskConflict
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, rejections

REASON = "node(s) had no available disk"


def gce(name: str, read_only: bool) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, read_only: bool) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str, read_only: bool) -> dict[str, Any]:
    return {"iscsi": {"iqn": name, "targetPortal": "1.2.3.4", "readOnly": read_only}}


def rbd(name: str, read_only: bool, *monitors: str) -> dict[str, Any]:
    return {"rbd": {"image": name, "pool": "p", "monitors": [*monitors] or ["m"],
                    "readOnly": read_only}}  # fmt: skip


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (gce("a", False), gce("a", True), True),
        (gce("a", True), gce("a", True), False),
        (gce("a", False), gce("b", False), False),
        (ebs("a", True), ebs("a", True), True),
        (iscsi("a", True), iscsi("a", True), False),
        (iscsi("a", True), iscsi("a", False), True),
        (rbd("a", False, "m", "n"), rbd("a", True, "n"), True),
        (rbd("a", False, "m"), rbd("a", False, "n"), False),
        (gce("a", False), ebs("a", False), False),
    ],
)
def test_a_disk_is_mounted_twice_only_to_read_it(
    mine: dict[str, Any], theirs: dict[str, Any], conflict: bool
) -> None:
    there = pod("there", {"nodeName": "n", "volumes": [{"name": "v", **theirs}]})
    state = cluster(node("n"), pods=[there])
    pending = pod("p", {"volumes": [{"name": "v", **mine}]})
    found = rejections(NoDiskConflict(), pending, state)
    assert found == ({"n": (REASON,)} if conflict else {})


def test_evicting_the_other_pod_would_help() -> None:
    volumes = [{"name": "v", **gce("a", False)}]
    state = cluster(node("n"), pods=[pod("there", {"nodeName": "n", "volumes": volumes})])
    found = filtered(NoDiskConflict(), pod("p", {"volumes": volumes}), state)
    assert found["n"].code is Code.UNSCHEDULABLE
