"""What drivers report of the devices that a pod waits for."""

from __future__ import annotations

from podsched.framework.status import error
from podsched.plugins.dynamic_resources.reservation import device_status
from support.device_objects import resource_claim


def test_a_failed_binding_is_told_with_the_reason_and_message_of_the_driver() -> None:
    claim = resource_claim("c")
    device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    result = claim.status.allocation.devices.results.add(request="gpus", **device)
    result.binding_conditions.append("attached")
    result.binding_failure_conditions.append("failed")
    conditions = claim.status.devices.add(**device).conditions
    conditions.add(type="failed", status="True", reason="NoLink", message='port "7" is down')
    assert device_status([claim]) == error(
        r'device binding failed: claim=c, reason=NoLink, message="port \"7\" is down"'
    )
