"""The jobs of a random history: what is submitted, and how it changes while it waits or runs."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Any, Final

from podsched.api.objects import Pod, PodGroup
from podsched.api.queue_labels import (
    MAX_EXEC_TIME,
    POD_SET_GROUP,
    PREFERRED_LEVEL,
    REQUIRED_LEVEL,
    SLICE_LEVEL,
    SLICE_SIZE,
)
from support import queues as make
from support.term_world import TermWorld

ZONE: Final = "topology.kubernetes.io/zone"
QUEUES: Final = 5
#: What pods may be like, and what may happen to them: each in some histories.
FEATURES: Final = ("shapes", "apart", "guarded", "growth", "refusals")
#: Pods with this label are in a PodDisruptionBudget that permits no evictions.
GUARDED: Final = {"guarded": "true"}
SLICE: Final = 2


class RandomJobs:
    """Jobs of one history: lone pods, and gangs of pods of one shape or two."""

    def __init__(
        self, rng: random.Random, disturbances: Collection[str], *, limits: bool, zones: bool
    ) -> None:
        """``limits``: whether most have a limit in time; ``zones``: whether there is a Topology."""
        self._rng = rng
        self._disturbances = disturbances
        self._limits, self._zones = limits, zones
        self._count = 0
        self.features = {one for one in FEATURES if rng.random() < 0.3}

    def _has(self, feature: str, chance: float) -> bool:
        return feature in self.features and self._rng.random() < chance

    def submit(self, world: TermWorld) -> None:
        """Create a lone pod or a gang."""
        rng = self._rng
        self._count += 1
        name, queue = f"j{self._count}", f"q{rng.randrange(QUEUES)}"
        priority = rng.randint(0, 2) if "priority" in self._disturbances else 0
        spec: dict[str, Any] = {"terminationGracePeriodSeconds": rng.choice((0, 30))}
        limit = rng.choice(("5", "20", "20", "60", "60", "200")) if self._limits else ""
        limit = limit if rng.random() < 0.95 else ""
        labels = {"job": name, **({MAX_EXEC_TIME: limit} if limit else {})}
        if self._has("guarded", 0.3):
            labels.update(GUARDED)
        more = {"labels": labels, **self._requests(bool(limit))}
        if rng.random() < 0.1 and "lone" in self._disturbances:
            world.pod(name, cpu="1", **spec)
        elif rng.random() < 0.5:
            make.job(world, name, queue, priority, spec=spec, **more)
        else:
            self._gang(world, name, queue, priority, spec, more)

    def _requests(self, has_limit: bool) -> dict[str, int]:
        rng = self._rng
        if has_limit and rng.random() < 0.3:
            return {"cpu": rng.randint(4, 8), "gpu": 0}
        return {"cpu": rng.randint(0, 4), "gpu": rng.choice((0, 0, 1, 2, 4, 8))}

    def _gang(
        self,
        world: TermWorld,
        name: str,
        queue: str,
        priority: int,
        spec: dict[str, Any],
        more: dict[str, Any],
    ) -> None:
        rng = self._rng
        count = rng.randint(2, 5)
        least = count if rng.random() < 0.7 else rng.randint(1, count)
        others = rng.randint(1, 2) if self._has("shapes", 0.5) else 0
        if self._has("apart", 0.5):
            spec["affinity"] = _apart(name)
        annotations: dict[str, str] = {}
        # Pods that request nothing have no flavor, and so no Topology: such a gang would wait.
        if self._zones and more["cpu"] + more["gpu"]:
            kinds: tuple[dict[str, str], ...] = (
                {},
                {REQUIRED_LEVEL: ZONE},
                {PREFERRED_LEVEL: ZONE},
            )
            if not (others or "affinity" in spec):
                kinds += ({SLICE_LEVEL: ZONE, SLICE_SIZE: str(SLICE)},)
            annotations = rng.choice(kinds)
        if others and least == count:
            least += others
        make.gang(
            world, name, queue, count, least, priority, spec=spec, annotations=annotations, **more
        )
        # Both shapes request something, or else only one of them would be in the Topology.
        requests = {"cpu": rng.randint(1, 4), "gpu": rng.choice((0, 1))}
        for index in range(count, count + others):
            self._member(world, name, index, queue, priority, spec, {**more, **requests})
        if others and rng.random() < 0.3:
            for index in range(count + others):
                world.change(
                    f"{name}-{index}",
                    lambda pod: pod.metadata.annotations.update({POD_SET_GROUP: "all"}),
                )

    def _member(
        self,
        world: TermWorld,
        gang: str,
        index: int,
        queue: str,
        priority: int,
        spec: dict[str, Any],
        more: dict[str, Any],
    ) -> None:
        full = {"schedulingGroup": {"podGroupName": gang}, **spec}
        make.job(world, f"{gang}-{index}", queue, priority, spec=full, **dict(more))

    def grow(self, world: TermWorld, pods: Sequence[Pod]) -> None:
        """Add a pod to a gang that runs; ``pods``: all that run."""
        members = [pod for pod in pods if pod.spec.HasField("scheduling_group")]
        if not members or "growth" not in self.features:
            return
        like = self._rng.choice(members)
        self._count += 1
        made = Pod()
        made.CopyFrom(like)
        made.spec.node_name = ""
        made.ClearField("status")
        made.metadata.name = f"{like.spec.scheduling_group.pod_group_name}-{100 + self._count}"
        made.metadata.uid = f"uid-{made.metadata.name}"
        for field in ("deletion_timestamp", "creation_timestamp", "annotations"):
            made.metadata.ClearField(field)
        world.cluster.create(made)

    def move(self, world: TermWorld, pods: Sequence[Pod]) -> None:
        """Move a unit, of which none runs, to another queue; ``pods``: all that there are.

        Call it when the leader has seen all that has changed: a queue is immutable once quota is
        reserved, so a unit that is being admitted may not be moved.
        """
        held = world.state.cache.held
        waiting: dict[str, list[Pod]] = {}
        for pod in pods:
            waiting.setdefault(pod.metadata.name.partition("-")[0], []).append(pod)
        names = [
            name
            for name, of in waiting.items()
            if make.QUEUE in of[0].metadata.labels
            and not any(pod.spec.node_name or pod.metadata.uid in held for pod in of)
        ]
        if not names:
            return
        name, queue = self._rng.choice(names), f"q{self._rng.randrange(QUEUES)}"
        groups = [one for one in world.cluster.objects("PodGroup") if one.metadata.name == name]
        for one in [*groups, *waiting[name]]:
            assert isinstance(one, Pod | PodGroup)
            one.metadata.labels[make.QUEUE] = queue
            world.cluster.update(one)


def _apart(name: str) -> dict[str, Any]:
    """The affinity of pods that keep the others of their job away from their node."""
    term = {
        "labelSelector": {"matchLabels": {"job": name}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
