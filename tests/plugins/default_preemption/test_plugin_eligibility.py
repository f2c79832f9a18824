"""Who may preempt: not a pod for which room is being made already."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from podsched.config.load import default_config
from podsched.decide.decision import Decision
from podsched.framework.plugin import PostFilterResult, Victims
from podsched.plugins.default_preemption.plugin import DefaultPreemption
from podsched.registry import factories
from podsched.term.state import SchedulingState, build_state
from podsched.v1 import objects_pb2 as v1
from support.deciding import decide
from support.engine_world import container, node, pod

GOING = (
    "no new claims to deallocate, "
    "preemption: not eligible due to a terminating pod on the nominated node."
)
THREE = [container({"cpu": "3"})]


class Room:
    """A node of 4 CPUs with a pod of 3 on it, and another node the same; preemptors want 3."""

    def __init__(self) -> None:
        self.state: SchedulingState = build_state(default_config(), factories(), seed=1)
        self.runtime = next(iter(self.state.profiles.values()))
        self.decider = self.state.decider()
        for name in ("n1", "n2"):
            self._add("Node", node(name))
            self._add("Pod", self._pod(f"on-{name}", 0, node_name=name))
        self._add("Pod", self._pod("preemptor", 100))

    def _add(self, kind: str, message: object) -> None:
        self.state.cache.apply(kind, None, message)

    def _pod(self, name: str, priority: int, node_name: str = "") -> v1.Pod:
        spec = {"containers": THREE, "priority": priority, "schedulerName": "default-scheduler"}
        return pod(name, {**spec, "nodeName": node_name} if node_name else spec)

    @property
    def plugin(self) -> DefaultPreemption:
        plugin = self.runtime.plugins["DefaultPreemption"]
        assert isinstance(plugin, DefaultPreemption)
        return plugin

    def evict(self, victim: str) -> None:
        """Be in the middle of a preemption of that pod: the preemptor may be tried again."""
        pods = self.state.cache.cluster.pods
        victims = Victims((pods[f"default/{victim}"],))
        self.plugin.evictions_started([pods["default/preemptor"]], victims)
        self.plugin.preemptors_released([pods["default/preemptor"]])

    def preempt(self) -> PostFilterResult:
        self.state.queue.add(self.state.cache.cluster.pods["default/preemptor"], 1.0)
        queued = self.state.queue.attempts.pop(1.0)
        assert queued is not None
        decisions: Sequence[Decision] = decide(
            self.state.cache, self.decider, self.runtime, [queued]
        )
        result = self.decider.post_filter(self.runtime, decisions[0])
        self.state.queue.attempts.add_unschedulable_if_not_present(queued, 1.0)
        assert result is not None
        return result


def test_a_pod_nominated_nowhere_may_preempt() -> None:
    assert Room().preempt().status.ok


@pytest.mark.parametrize("nominated", ["n1", "n2"])
def test_a_pod_whose_victim_is_being_evicted_on_its_node_asks_for_no_other(nominated: str) -> None:
    room = Room()
    room.state.cache.nominate(room.state.cache.cluster.pods["default/preemptor"], nominated)
    room.evict(f"on-{nominated}")
    assert room.preempt().status.message == GOING


def test_an_eviction_on_another_node_than_its_own_does_not_keep_a_pod_from_preempting() -> None:
    room = Room()
    room.state.cache.nominate(room.state.cache.cluster.pods["default/preemptor"], "n1")
    room.evict("on-n2")
    assert room.preempt().status.ok
