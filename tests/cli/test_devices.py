"""``sched get devices``, and the claims of a pod as its description shows them."""

from __future__ import annotations

from podsched.cli.devices import claim_lines
from podsched.v1 import objects_pb2 as v1
from support.commands import Commands


def test_the_claim_for_extended_resources_is_shown_by_their_names() -> None:
    pod = v1.Pod()
    assert claim_lines(pod, []) == []
    told = pod.status.extended_resource_claim_status
    told.resource_claim_name = "p-extended-resources-abcde"
    for name in ("example.com/nic", "example.com/gpu", "example.com/gpu"):
        told.request_mappings.add(container_name="c", resource_name=name, request_name="r")
    claim = v1.ResourceClaim()
    claim.metadata.name = told.resource_claim_name
    claim.status.allocation.devices.results.add(pool="n1", device="d0")
    assert claim_lines(pod, [claim]) == [
        "Claims:",
        "  example.com/gpu, example.com/nic: p-extended-resources-abcde, n1/d0",
    ]


def test_devices_are_not_shown_together_with_other_kinds() -> None:
    for kinds in ("nodes,devices", "device,pods"):
        done = Commands()("get", kinds)
        assert done.code == 2
        assert "get devices takes no names, no other kinds" in done.err
