"""Events that can wake a pod."""

from __future__ import annotations

from support.explain_world import ExplainWorld


def test_events_are_those_of_the_plugins_that_reject_the_pod() -> None:
    world = ExplainWorld()
    world.node("a", allocatable={"cpu": "1", "pods": "10"})
    world.pod("web", "2")
    events = {e.event: (list(e.plugins), e.asks_first) for e in world.explain("web").wake_events}
    assert events["NodeUpdateNodeAllocatable"] == (["NodeResourcesFit"], True)
    assert events["PodDelete"][0] == ["NodeResourcesFit"]
    assert "NodeUpdateNodeLabel" not in events


def test_a_gated_pod_waits_for_what_opens_its_gate() -> None:
    world = ExplainWorld()
    world.pod("web", schedulingGates=[{"name": "later"}])
    [event] = world.explain("web").wake_events
    assert list(event.plugins) == ["SchedulingGates"]
