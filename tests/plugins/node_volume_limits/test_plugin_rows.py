"""CSINodes and attachments change rows: what is evaluated row by row is what it is from scratch."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.manifest import from_manifest
from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.config.load import default_config
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.plugins.node_volume_limits.plugin import NodeVolumeLimits
from podsched.registry import factories
from support.cache_world import make_node, make_pod
from support.examples import examples
from support.volume_world import attachment, claim, csi_node, storage_class, volume

DRIVER = "csi.example.com"
NAMES = ["n0", "n1", "n2"]


def message(manifest: Any) -> Any:
    return from_manifest(manifest).message


class Limited:
    """Nodes with limits, pods with volumes, and a decider that has seen all that happened."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cache = Cache()
        self.cluster = self.cache.cluster
        self.put(message(storage_class("csi", DRIVER)))
        for number in range(4):
            csi = {"driver": DRIVER, "volumeHandle": f"h{number}"}
            self.put(message(volume(f"v{number}", storage_class="csi", csi=csi)))
            self.put(message(claim(f"c{number}", storage_class="csi", volume=f"v{number}")))
        for name in NAMES:
            self.put(make_node(name))
        self.pending = [self.pod(f"waits-{at}", at) for at in range(3)]
        self.runtime = self.profile()
        scheduler = self.runtime.scheduler_name
        self.decider = AcceleratedDecider(self.cluster, {scheduler: self.runtime}, Chance(0))

    def profile(self) -> ProfileRuntime:
        handle = SimulatedHandle(self.cluster)
        return ProfileRuntime(default_config().profiles[0], factories(), handle)

    def put(self, new: Any, old: Any = None) -> None:
        kind = (new if new is not None else old).DESCRIPTOR.name
        self.cache.apply(kind, old, new)

    def pod(self, name: str, of: int, node: str = "") -> PodInfo:
        made = make_pod(name, node=node)
        for at in range(of % 2 + 1):
            mounted = made.spec.volumes.add(name=f"m{at}")
            mounted.persistent_volume_claim.claim_name = f"c{(of + at) % 4}"
        self.put(made)
        return self.cluster.pods[f"default/{name}"]

    def change(self) -> None:
        """One thing that may happen."""
        pick, name = self.random, self.random.choice(NAMES)
        kind = pick.choice(["CSINode", "VolumeAttachment", "Node", "Pod", "trial"])
        if kind == "trial":
            with Trial(self.cache) as trial:
                trial.put("CSINode", message(csi_node(name, {DRIVER: 0})))
                trial.remove_node(pick.choice(NAMES))
                self.outcomes()
            return
        if kind == "Pod":
            placed = f"p{pick.randrange(4)}"
            old = self.cluster.pods.get(f"default/{placed}")
            if old is not None:
                self.put(None, old.pod)
            else:
                self.pod(placed, pick.randrange(4), name)
            return
        of = f"a{pick.randrange(3)}" if kind == "VolumeAttachment" else name
        made = {
            "CSINode": lambda: message(csi_node(name, {DRIVER: pick.randrange(4)})),
            "VolumeAttachment": lambda: message(
                attachment(of, name, f"v{pick.randrange(4)}", DRIVER)
            ),
            "Node": lambda: make_node(name),
        }[kind]()
        old = self.cluster.get(kind, "", of)
        self.put(None if old is not None and pick.random() < 0.4 else made, old)

    def outcomes(self) -> list[dict[str, object]]:
        """By pod, what the filters say of each node."""
        found = []
        for pod in self.pending:
            evaluation = self.decider.evaluation(self.runtime, pod)
            evaluation.refresh(pod)
            assert evaluation.failure is None
            found.append(named(self.cache, evaluation.outcome()))
        return found

    def from_scratch(self) -> list[dict[str, object]]:
        runtime = self.profile()
        found = []
        for pod in self.pending:
            decider = AcceleratedDecider(self.cluster, {runtime.scheduler_name: runtime}, Chance(0))
            evaluation = decider.evaluation(runtime, pod)
            evaluation.refresh(pod)
            found.append(named(self.cache, evaluation.outcome()))
        return found


def named(cache: Cache, outcome: Any) -> dict[str, object]:
    return {
        cache.columns.names[row]: outcome.status(at) for at, row in enumerate(outcome.rows.tolist())
    }


@examples(60)
@given(seed=st.integers(0, 1_000_000))
def test_after_any_changes_the_verdicts_are_those_from_scratch(seed: int) -> None:
    world = Limited(seed)
    for _ in range(12):
        world.change()
        if world.random.random() < 0.6:
            assert world.outcomes() == world.from_scratch()
    assert world.outcomes() == world.from_scratch()


def test_a_csi_node_or_an_attachment_has_one_row_evaluated_again() -> None:
    world = Limited(0)
    for name in NAMES:
        world.put(message(csi_node(name, {DRIVER: 1})))
    world.outcomes()
    plugin, [pod, *_] = world.runtime.plugins["NodeVolumeLimits"], world.pending
    assert isinstance(plugin, NodeVolumeLimits)
    before, position = plugin.inputs(pod, world.cluster), world.cache.columns.position
    world.put(message(csi_node("n1", {DRIVER: 0})), world.cluster.get("CSINode", "", "n1"))
    world.put(message(attachment("a", "n2", "v3", DRIVER)))
    assert plugin.inputs(pod, world.cluster) == before
    changed = world.cache.columns.changed_since(position)
    assert changed is not None
    assert [world.cache.columns.names[row] for row in changed] == ["n1", "n2"]
    assert {name for name, status in world.outcomes()[0].items() if status.ok} == {"n0"}  # type: ignore[attr-defined]


def test_evaluations_of_shards_get_limits_and_attachments_as_they_are() -> None:
    world = Limited(0)
    world.put(message(csi_node("n1", {DRIVER: 1})))
    world.put(message(attachment("a", "n1", "v3", DRIVER)))
    plugin, state = NodeVolumeLimits(None, SimulatedHandle(world.cluster)), CycleState()
    plugin.pre_filter(state, world.pending[0], world.cluster)
    nodes, rows = world.cluster.columns, world.cluster.columns.node_table.live_rows
    here = plugin.filter(state, world.pending[0], nodes, rows)
    sent = pickle.loads(pickle.dumps(state))
    world.put(message(csi_node("n1", {DRIVER: 9})), world.cluster.get("CSINode", "", "n1"))
    there = plugin.filter(sent, world.pending[0], nodes, rows)
    assert here.bits.tolist() == there.bits.tolist()
    assert np.flatnonzero(here.bits).tolist() == [nodes.row_of("n1")]
