"""Pods with volumes through the decisions of the scheduling cycle, with what plugins reserve."""

from __future__ import annotations

from typing import Any

from podsched.api.manifest import from_manifest
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import default_config
from podsched.decide.decision import Decision
from podsched.decide.runtime.plugin_metrics import ProfileMeters
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code
from podsched.registry import factories
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import EvaluationMetrics, SchedulerMetrics
from podsched.term.cycle.reserve_permit import run_reserve
from podsched.term.state import SchedulingState, build_state
from podsched.term.writes.bind_queue import Assignment
from podsched.v1 import objects_pb2 as v1
from support.deciding import decide
from support.volume_world import Manifest, claim, storage_class, volume


class Cycles:
    """A scheduling state, decisions and Reserve in turn, as the scheduling cycle runs them."""

    def __init__(
        self, nodes: list[str], *objects: Manifest, state: SchedulingState | None = None
    ) -> None:
        self.state = state or build_state(default_config(), factories(), seed=1)
        self.runtime = next(iter(self.state.profiles.values()))
        self.decider = self.state.decider()
        cache = self.state.cache
        for name in nodes:
            node = v1.Node()
            node.metadata.name = name
            node.metadata.labels["zone"] = name
            node.status.allocatable.update({"cpu": "4", "memory": "8Gi", "pods": "20"})
            cache.apply("Node", None, node)
        for manifest in objects:
            cache.apply(manifest["kind"], None, from_manifest(manifest).message)

    def pod(self, name: str, *claims: str) -> PodInfo:
        manifest: dict[str, Any] = {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
                ],
                "volumes": [
                    {"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}}
                    for i, c in enumerate(claims)
                ],
            },
        }  # fmt: skip
        message = from_manifest(manifest).message
        assert isinstance(message, v1.Pod)
        self.state.cache.apply("Pod", None, message)
        return make_pod_info(message, self.state.cache.classes)

    def decide(self, pods: list[QueuedPodInfo]) -> list[Decision]:
        return decide(self.state.cache, self.decider, self.runtime, pods)

    def run(self, *pods: PodInfo) -> list[Decision]:
        """Decides for pods of one class and reserves, until all have been decided."""
        remaining = [QueuedPodInfo(pod, timestamp=0.0) for pod in pods]
        decisions: list[Decision] = []
        while remaining:
            made = self.decide(remaining)
            for decision in made:
                if decision.node_name:
                    self.reserve(decision)
            decisions += made
            remaining = remaining[len(made) :]
        return decisions

    def reserve(self, decision: Decision) -> None:
        for named in self.runtime.reserve:
            pod = decision.queued.info
            assert named.plugin.reserve(decision.state, pod, decision.node_name).ok


def test_pods_of_one_class_follow_the_first_to_where_their_claim_is_provisioned() -> None:
    cycles = Cycles(
        ["a", "b", "c"], claim("c", storage_class="dyn"), storage_class("dyn", "csi.example.com")
    )
    decisions = cycles.run(*(cycles.pod(f"p{i}", "c") for i in range(3)))
    assert len({decision.node_name for decision in decisions}) == 1
    assert decisions[0].node_name


def test_a_volume_goes_to_one_of_two_pods_that_could_have_it() -> None:
    cycles = Cycles(
        ["a", "b"], claim("c"), claim("d"), storage_class("local"), volume("v", zones=["b"])
    )
    (first,), (second,) = cycles.run(cycles.pod("p", "c")), cycles.run(cycles.pod("q", "d"))
    assert first.node_name == "b"
    assert second.diagnosis is not None
    assert second.diagnosis.fit_error() == (
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    )


def test_pods_without_claims_are_still_decided_together() -> None:
    cycles = Cycles(["a", "b"])
    pods = [QueuedPodInfo(cycles.pod(f"p{i}"), timestamp=0.0) for i in range(4)]
    assert len(cycles.decide(pods)) == 4


def test_pods_with_bound_claims_share_a_key_if_their_volumes_require_the_same() -> None:
    volumes = [volume(f"v{n}") for n in "abc"]
    claims = [claim(n, volume=f"v{n}") for n in "abc"]
    cycles = Cycles(["x", "y"], *volumes, *claims, claim("d"), claim("e"), storage_class("local"))
    key = cycles.decider.key
    a, b, d, e = (cycles.pod(f"pod-{n}", n) for n in "abde")
    assert key(a) == key(b)
    assert len({key(a), key(d), key(e)}) == 3


def test_pods_whose_claims_are_bound_are_decided_on_together() -> None:
    volumes = [volume(f"v{n}") for n in "abc"]
    claims = [claim(n, volume=f"v{n}") for n in "abc"]
    cycles = Cycles(["x", "y"], *volumes, *claims, storage_class("local"))
    pods = [QueuedPodInfo(cycles.pod(f"pod-{n}", n), timestamp=0.0) for n in "abc"]
    decisions = cycles.decide(pods)
    assert [decision.node_name for decision in decisions] == ["x", "y", "x"]


def test_a_reservation_of_volumes_that_goes_wrong_is_an_error_of_assuming() -> None:
    registry = MetricRegistry()
    metrics = SchedulerMetrics(registry)
    meter = ProfileMeters(metrics, EvaluationMetrics(registry))
    state = build_state(default_config(), factories(), seed=1, meter=meter)
    cycles = Cycles(
        ["a"], claim("c"), storage_class("local"), volume("v", zones=["a"]), state=state
    )
    pod = cycles.pod("p", "c")
    (decision,) = cycles.decide([QueuedPodInfo(pod, timestamp=0.0)])
    taken = from_manifest(claim("c")).message
    state.cache.apply("PersistentVolumeClaim", taken, None)
    assignment = Assignment(decision.queued, "a", decision.state)
    assert run_reserve(cycles.runtime, assignment).code is Code.ERROR
    errors = metrics.volume_scheduling_stage_error_total
    assert {labels[0]: cell.value for labels, cell in errors.cells()}["assume"] == 1
