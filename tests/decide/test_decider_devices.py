"""Pods with claims and extended resources are decided in batches as one by one.

Each pod is reserved before the next is decided where nothing is accelerated, and after the whole
batch where it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.device_claims import is_reserved_for
from podsched.api.extended_resources import extended_claim_owner
from podsched.api.manifest import from_manifest
from podsched.cache.pod_class import make_pod_info
from podsched.cache.trial import Trial
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.term.cycle.reserve_permit import run_reserve, run_unreserve
from podsched.term.writes.bind_queue import Assignment
from podsched.v1 import objects_pb2 as v1
from support.device_objects import device_class, devices, resource_claim
from support.engine_world import World, container, node, pod
from support.examples import examples
from support.volume_world import claim as volume_claim
from support.volume_world import storage_class

GPU = "example.com/gpu"
OWN = "deviceclass.resource.kubernetes.io/gpu"
REFERENCE = ("incremental", "variants")
#: Devices count in scores.
PACKING = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 3}, {"name": "cpu"}]}
IS_A = 'device.attributes["gpu.example.com"].model == "a"'
MODEL = "gpu.example.com/model"

Decider = tuple[ProfileRuntime, AcceleratedDecider]


class Devices(World):
    """Nodes of which some have devices, some a device plugin, some both and some neither.

    In half of the worlds all nodes are roomy, and few have a device plugin.
    """

    def __init__(self, seed: int) -> None:
        self.is_roomy = bool(seed % 2)
        super().__init__(seed, nodes=3 if self.is_roomy else 7, strategy=PACKING)
        self.strategy = self.random.choice(({"type": "LeastAllocated"}, PACKING))
        self.put(device_class(resource=GPU))
        for name in filter(None, self.cluster.nodes.names):
            self.publish(name)

    def put(self, item: Any) -> None:
        kind = type(item).__name__
        meta = item.metadata
        self.cache.apply(kind, self.cluster.get(kind, meta.namespace, meta.name), item)

    def publish(self, node_name: str) -> None:
        """Publish other devices of a node."""
        models = [self.random.choice("ab") for _ in range(4)]
        count = self.random.choice((0, 1, 3, 4))
        self.put(devices(node_name, count, attributes={"model": models}))

    def decider(self, *without: str) -> Decider:
        runtime = self.profile(self.strategy, None)
        profiles = {runtime.scheduler_name: runtime}
        return runtime, AcceleratedDecider(self.cluster, profiles, Chance(0), without=without)

    def random_node(self, name: str = "") -> v1.Node:
        if not self.is_roomy:
            return super().random_node(name)
        allocatable = {"cpu": "16", "memory": "16Gi", "pods": "30"}
        if self.random.random() < 0.2:
            allocatable[GPU] = "8"
        return node(name or self.name("node"), allocatable=allocatable)

    # ------------------------------------------------------------------ pods

    def claim(self) -> str:
        """Store a claim of a random kind; return its name."""
        name, pick = self.name("claim"), self.random
        selectors = [IS_A] if pick.random() < 0.3 else []
        match = MODEL if pick.random() < 0.3 else ""
        self.put(resource_claim(name, *selectors, count=pick.choice((1, 1, 2)), match=match))
        return name

    def asking(self, *claims: str, **amounts: int) -> PodInfo:
        """A pod with claims, that asks for extended resources."""
        named = {"gpu": GPU, "own": OWN}
        requests = {"cpu": "100m", **{named[of]: str(n) for of, n in amounts.items()}}
        spec: dict[str, Any] = {
            "containers": [container(requests)],
            "resourceClaims": [{"name": of, "resourceClaimName": of} for of in claims],
        }
        if amounts and self.random.random() < 0.3:
            spec["initContainers"] = [{**container(requests), "name": "init"}]
        return make_pod_info(pod(self.name("pod"), spec), self.cache.classes)

    def batch(self) -> list[QueuedPodInfo]:
        pick = self.random
        kind, shared = pick.choice(("own", "shared", "extended", "mixed", "any")), self.claim()
        amounts = {"gpu": pick.choice((1, 1, 2))}
        made: list[PodInfo] = []
        for _ in range(pick.randint(1, 12)):
            each = (
                pick.choice(("own", "shared", "extended", "mixed", "any"))
                if kind == "any"
                else kind
            )
            if each == "own":
                made.append(self.asking(self.claim()))
            elif each == "shared":
                made.append(self.asking(shared))
            elif each == "extended":
                made.append(self.asking(**amounts))
            elif each == "mixed":
                made.append(self.asking(self.claim(), gpu=1, own=1))
            else:
                made.append(self.pending())
        return [QueuedPodInfo(of, 0.0) for of in made]

    # ------------------------------------------------------------------ what happens

    def written(self) -> None:
        """What is assumed of claims is stored."""
        for claim in self.cluster.assumed("ResourceClaim").assumed():
            stored = v1.ResourceClaim()
            stored.CopyFrom(claim)
            stored.metadata.uid = stored.metadata.uid or f"uid-{stored.metadata.name}"
            self.put(stored)

    def gone(self, placed: PodInfo) -> None:
        """A pod is gone, and its claims are given back."""
        self.placed.remove(placed)
        self.cache.forget(placed)
        for claim in list(self.cluster.list("ResourceClaim")):
            if extended_claim_owner(claim) == placed.uid:
                self.cache.apply("ResourceClaim", claim, None)
            elif is_reserved_for(placed.pod, claim):
                left = v1.ResourceClaim()
                left.CopyFrom(claim)
                left.ClearField("status")
                self.put(left)

    def happen(self) -> None:
        pick = self.random
        names = [name for name in self.cluster.nodes.names if name]
        change = pick.choice(("gone", "gone", "slices", "class", "cluster"))
        if change == "gone" and self.placed:
            self.gone(pick.choice(self.placed))
        elif change == "slices":
            self.publish(pick.choice(names))
        elif change == "class":
            self.put(device_class(resource=pick.choice((GPU, GPU, ""))))
        elif change == "cluster":
            self.cache.placed.add_node(self.random_node(pick.choice(names)))


def outcome(decision: Decision, reserved: str) -> tuple[object, ...]:
    diagnosis, queued = decision.diagnosis, decision.queued
    assert decision.error is None, decision.error
    return (
        queued.info.name,
        decision.node_name,
        decision.total,
        reserved,
        None if diagnosis is None else diagnosis.fit_error(),
        None if diagnosis is None else diagnosis.unschedulable_plugins,
    )


def given_devices(claims: Iterable[v1.ResourceClaim]) -> list[tuple[str, str, str]]:
    """The devices of claims, by the pod that has them."""
    return sorted(
        (claim.status.reserved_for[0].name, result.pool, result.device)
        for claim in claims
        for result in claim.status.allocation.devices.results
    )


def decide(
    world: Devices, decider: Decider, pods: list[QueuedPodInfo], *, keep: bool
) -> tuple[list[tuple[object, ...]], list[tuple[str, str, str]]]:
    """All decisions for the pods, and the devices that they get; taken back unless kept."""
    runtime, made = decider
    outcomes: list[tuple[object, ...]] = []
    reserved: list[Assignment] = []
    with Trial(world.cache) as trial:
        while len(outcomes) < len(pods):
            for decision in made.decide(trial, runtime, pods[len(outcomes) :]):
                text = ""
                if decision.node_name:
                    queued = decision.queued
                    assignment = Assignment(queued, decision.node_name, decision.state)
                    status = run_reserve(runtime, assignment)
                    text = status.message
                    if status.ok:
                        reserved.append(assignment)
                    else:
                        trial.forget(queued.info)
                outcomes.append(outcome(decision, text))
        found = given_devices(world.cluster.assumed("ResourceClaim").assumed())
        if keep:
            trial.commit()
        else:
            for assignment in reversed(reserved):
                run_unreserve(runtime, assignment)
    if keep:
        world.written()
        world.placed += [assignment.pod for assignment in reserved]
    return outcomes, found


@examples(150)
@given(st.integers(0, 2**32))
def test_with_and_without_accelerators_pods_get_the_same_nodes_and_devices(seed: int) -> None:
    world = Devices(seed)
    plain, fast = world.decider(*REFERENCE), world.decider()
    for _ in range(6):
        pods = world.batch()
        expected = decide(world, plain, pods, keep=False)
        assert decide(world, fast, pods, keep=True) == expected
        used = [of[1:] for of in given_devices(world.cluster.list("ResourceClaim"))]
        assert len(used) == len(set(used))
        for _ in range(world.random.randint(0, 3)):
            world.happen()


@pytest.mark.parametrize("kind", ["ResourceClaim", "PersistentVolumeClaim"])
def test_postfilter_reads_nothing_that_prefilter_left_before_the_pod_was_rejected_there(
    kind: str,
) -> None:
    world, name = Devices(1), "claim"
    wanted, disk = resource_claim(name, count=99), from_manifest(volume_claim(name)).message
    for item in (wanted, disk, from_manifest(storage_class("local")).message):
        world.put(item)
    spec = {
        "containers": [container()],
        "resourceClaims": [{"name": "c", "resourceClaimName": name}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
    }
    waiting = QueuedPodInfo(make_pod_info(pod("p", spec), world.cache.classes), 0.0)

    def said(decider: Decider) -> PostFilterResult | None:
        runtime, made = decider
        with Trial(world.cache) as trial:
            [decision] = made.decide(trial, runtime, [waiting])
        return made.post_filter(runtime, decision)

    fast = world.decider()
    assert said(fast) == said(world.decider(*REFERENCE))
    world.cache.apply(kind, world.cluster.get(kind, "default", name), None)
    assert said(fast) == said(world.decider(*REFERENCE))
