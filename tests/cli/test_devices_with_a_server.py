"""The examples of devices on hollow nodes, and what ``sched get devices`` shows of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from support.commands import Commands

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "deploy/examples/devices"
DEVICES = ("8xh100.example.com", "4xnic.example.com:nic", "2xmig.example.com:mig")
PODS = ("extended", "gpu-and-nic", "mig", "prioritized", "shared-0", "shared-1", "two-gpus")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options = LocalClusterOptions(
        tmp_path_factory.mktemp("cluster"),
        replicas=1,
        nodes=2,
        node_devices=DEVICES,
        evaluator="local",
        fsync=False,
    )
    with asyncio.Runner() as runner:
        running = LocalCluster(options)
        runner.run(running.start())
        try:
            yield running
        finally:
            runner.run(running.stop())


@pytest.fixture(scope="module")
def sched(cluster: LocalCluster) -> Commands:
    commands = Commands(cluster.server)
    commands.until("node-0001-nic.example.com-0", "get", "resourceslices")
    commands.ok("apply", "-f", str(EXAMPLES))
    for name in PODS:
        running = "--for=jsonpath={.status.phase}=Running"
        commands.ok("wait", f"pod/{name}", running, "--timeout=3m")
    return commands


def devices_of(sched: Commands, claim: str) -> list[dict[str, Any]]:
    """The devices that a claim uses, as ``get devices`` has them."""
    items = json.loads(sched.ok("get", "devices", "-o", "json"))["items"]
    return [each for each in items if claim in [user["claim"] for user in each["inUseBy"]]]


def values(devices: list[dict[str, Any]], attribute: str) -> set[Any]:
    return {next(iter(each["attributes"][attribute].values())) for each in devices}


def test_two_gpus_are_of_one_nvlink_domain(sched: Commands) -> None:
    found = devices_of(sched, "two-gpus")
    assert len(found) == 2
    assert len(values(found, "nvlinkDomain")) == 1


def test_a_gpu_and_a_network_card_are_at_one_pcie_root(sched: Commands) -> None:
    found = devices_of(sched, "gpu-and-nic")
    assert {each["driver"] for each in found} == {"h100.example.com", "nic.example.com"}
    assert len(values(found, "resource.kubernetes.io/pcieRoot")) == 1


def test_a_partition_has_the_memory_that_is_asked_for(sched: Commands) -> None:
    [found] = devices_of(sched, "mig")
    assert found["capacity"]["memory"]["value"] == "20Gi"


def test_both_pods_of_a_shared_claim_use_its_gpu(sched: Commands) -> None:
    [found] = devices_of(sched, "shared")
    assert sorted(found["inUseBy"][0]["reservedFor"]) == ["shared-0", "shared-1"]


def test_the_second_alternative_is_taken_where_the_first_is_not_there(sched: Commands) -> None:
    found = devices_of(sched, "prioritized")
    assert values(found, "profile") == {"3g.40gb"} and len(found) == 2


def test_a_pod_gets_gpus_by_an_extended_resource(
    sched: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # lines are not wrapped
    text = sched.ok("describe", "pod", "extended")
    resource = "deviceclass.resource.kubernetes.io/h100.example.com"
    [line] = [line for line in text.splitlines() if line.strip().startswith(f"{resource}: ")]
    claim, *devices = line.strip().removeprefix(f"{resource}: ").split(", ")
    assert claim.startswith("extended-extended-resources-")
    assert len(devices) == len(devices_of(sched, claim)) == 2


def test_the_table_shows_every_device_at_80_columns(
    sched: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = sched.ok("get", "devices").splitlines()
    assert lines[0].split() == ["NODE", "DRIVER", "DEVICE", "IN", "USE", "BY"]
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("node-") for line in lines) == 2 * (8 + 4 + 2 * 14)
    assert "default/shared (shared-0, shared-1)" in " ".join(" ".join(lines).split())


def test_the_wide_table_adds_pools_and_attributes(sched: Commands) -> None:
    head, first, *_ = sched.ok("get", "devices", "-o", "wide").splitlines()
    assert head.split() == ["NODE", "DRIVER", "POOL", "DEVICE", "IN", "USE", "BY", "ATTRIBUTES"]
    assert "nvlinkDomain=0 resource.kubernetes.io/pcieRoot=pci0000:00" in first


def test_devices_are_selected_by_the_fields_of_slices(sched: Commands) -> None:
    text = sched.ok("get", "devices", "--field-selector", "spec.nodeName=node-0000")
    assert "node-0001" not in text and "node-0000" in text


def test_what_devices_cannot_do_is_refused(sched: Commands) -> None:
    for arguments in (["gpu-0"], ["-w"], ["-l", "a=b"]):
        done = sched("get", "devices", *arguments)
        assert done.code == 2
        assert "and of the options only --output and --field-selector" in done.err
    done = sched("get", "devices", "-o", "name")
    assert done.code == 2 and "must be one of table, wide, json, yaml" in done.err


def test_describe_names_the_claims_of_a_pod_and_their_devices(sched: Commands) -> None:
    [found] = devices_of(sched, "shared")
    lines = sched.ok("describe", "pod", "shared-0").splitlines()
    at = lines.index("Claims:")
    assert lines[at + 1] == f"  devices: shared, {found['pool']}/{found['name']}"
