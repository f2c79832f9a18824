"""Which devices a node lacks, as a leader tells it."""

from __future__ import annotations

import pytest

from podsched.ask.live_explanation import Clock, explain_live
from podsched.v1.scheduling_pb2 import ExplainRequest
from support.device_cluster import Cluster, a_cluster

pytestmark = pytest.mark.looptime

DOMAIN = "gpu.example.com"
MODEL = f'device.attributes["{DOMAIN}"].model == "h100"'
MEMORY = f'device.capacity["{DOMAIN}"].memory.isGreaterThan(quantity("90Gi"))'


async def told(selector: str) -> str:
    """Return the leader's explanation of a pod that asks for a device of such a selector."""
    world: Cluster = await a_cluster()
    attributes = {"model": {"string": "h100"}}
    world.gpus("n", "d0", attributes=attributes, capacity={"memory": {"value": "80Gi"}})
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    asked = exactly | {"selectors": [{"cel": {"expression": selector}}]}
    world.make("ResourceClaim", "c", {"devices": {"requests": [{"name": "r", "exactly": asked}]}})
    world.user("p", "c")
    async with world.running(seconds=5):
        request = ExplainRequest(namespace="default", name="p", nodes=["n"])
        clock = Clock(world.clock(), world.clock())
        return str(explain_live(world.state, request, clock)).replace('\\"', '"')


async def test_of_a_selector_with_several_terms_a_leader_tells_the_false_one() -> None:
    text = await told(f"{MODEL} && {MEMORY}")
    assert f"({MEMORY} is false of d0 of n, which has memory 80Gi)" in text
    assert f"{MEMORY} is false: it has memory 80Gi" in text


@pytest.mark.parametrize(
    "part",
    [" && true" * 150, " && " + "[1, 2].all(a, " * 13 + "true" + ")" * 13],
    ids=["many terms", "a slow term"],
)
async def test_the_terms_of_a_selector_that_takes_long_are_not_tried(part: str) -> None:
    text = await told(f"{MODEL}{part} && {MEMORY}")
    assert "(d0 of n has model h100" in text
    assert "is false of d0" not in text
