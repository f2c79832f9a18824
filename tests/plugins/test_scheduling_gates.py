"""SchedulingGates: gated pods stay out of the queue."""

from __future__ import annotations

from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.status import Code
from podsched.plugins.scheduling_gates import SchedulingGates
from support.engine_world import pod
from support.plugin_world import hinted, info

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def test_a_pod_with_gates_stays_out_of_the_queue() -> None:
    gated = pod("p", {"schedulingGates": [{"name": "a"}, {"name": "b"}]})
    status = SchedulingGates().pre_enqueue(info(gated))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [a b]"
    assert SchedulingGates().pre_enqueue(info(pod("p"))).ok
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert hinted(SchedulingGates(), gated, event, gated, pod("p")) is QUEUE
    assert hinted(SchedulingGates(), gated, event, gated, pod("stranger")) is SKIP
