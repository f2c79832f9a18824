"""Deltas: messages that keep copies of the columns in other processes (shards) current.

An evaluator actor has a shard: the columns of some of the nodes. The leader has a ``DeltaEncoder``
per shard, and each shard has a ``DeltaDecoder`` with its own columns. Deltas are compact and quick
to pickle: the content of a pod class is sent once, then its id, and pods are parallel lists.

Guarantee: after the deltas of one encoder, in order, the shard's columns equal the leader's on the
shard's nodes (usage, labels, taints, images, ports, counts, and pods with their importance and in
their order), row by row, so that a CycleState made here can be read there. Deltas are numbered; a
gap raises ``DeltaGapError`` and the encoder has to ``restart``.

Non-goals: objects other than nodes and pods, nominations. A shard's ``PodInfo.pod`` is shared by
all pods of the class: it has the class's namespace, labels, owner and spec, neither name nor
status.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from podsched.framework.pods import PodAmounts, PodClass, SpecParts
from podsched.v1 import objects_pb2 as v1


class DeltaGapError(Exception):
    """A delta does not follow the last one applied; the leader must restart the encoder."""


def shard_of(node_name: str, shards: int) -> int:
    """Return the shard (0..shards-1) that holds a node; the same in every process."""
    # Not ``hash``, whose values differ between processes.
    return zlib.crc32(node_name.encode()) % shards


@dataclass(frozen=True, slots=True)
class ClassContent:
    """A pod class in the form that is sent to shards; ``id`` is the leader's id."""

    id: int
    namespace: str
    labels: tuple[tuple[str, str], ...]
    spec: bytes
    controller: tuple[str, str, str] | None
    requests: tuple[tuple[str, int], ...]
    nonzero: tuple[int, int]
    scored: tuple[tuple[str, int], ...]
    scheduler_name: str
    priority: int
    preemption_policy: str


@dataclass(frozen=True, slots=True)
class NodeDelta:
    """Changes of nodes: ``put`` has (row, serialized node), ``removed`` names of removed nodes.

    The pods of removed nodes are removed as well.
    """

    put: tuple[tuple[int, bytes], ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodDelta:
    """Changes of pods, as parallel lists, because these pickle faster than objects.

    Element ``i`` of each list but ``removed`` belongs to the same added or changed pod. ``rows``
    are the leader's rows of their nodes, ``classes`` ids of classes; ``removed`` has (row, uid).
    """

    rows: list[int] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    uids: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    start_times: list[float] = field(default_factory=list)
    creation_times: list[float] = field(default_factory=list)
    terminating: list[bool] = field(default_factory=list)
    removed: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Delta:
    """Everything that changed for a shard since the previous delta.

    ``number`` counts deltas. Number 0 is a full delta: the shard drops what it has before. ``size``
    is the number of the leader's rows.
    """

    number: int
    size: int
    classes: tuple[ClassContent, ...]
    forgotten_classes: tuple[int, ...]
    nodes: NodeDelta
    pods: PodDelta


def class_content(cls: PodClass) -> ClassContent:
    """Return a class in the form that is sent to shards, for ``make_class``."""
    return ClassContent(
        id=cls.id,
        namespace=cls.namespace,
        labels=tuple(cls.labels.items()),
        spec=cls.spec.SerializeToString(),
        controller=cls.controller,
        requests=tuple(cls.requests.items()),
        nonzero=cls.nonzero,
        scored=tuple(cls.amounts.scored.items()),
        scheduler_name=cls.scheduler_name,
        priority=cls.priority,
        preemption_policy=cls.preemption_policy,
    )


def make_class(content: ClassContent) -> tuple[PodClass, v1.Pod]:
    """Build a class from its content, and a Pod message that stands for all pods of the class."""
    spec = v1.PodSpec.FromString(content.spec)
    message = v1.Pod(spec=spec)
    message.metadata.namespace = content.namespace
    message.metadata.labels.update(dict(content.labels))
    if content.controller is not None:
        kind, name, uid = content.controller
        message.metadata.owner_references.add(kind=kind, name=name, uid=uid, controller=True)
    # With a shape of its own and an undivided spec: sharing them only saves time and memory.
    cls = PodClass(
        id=content.id,
        namespace=content.namespace,
        labels=dict(content.labels),
        spec_parts=SpecParts(spec),
        controller=content.controller,
        amounts=PodAmounts(dict(content.requests), content.nonzero, dict(content.scored)),
        scheduler_name=content.scheduler_name,
        priority=content.priority,
        preemption_policy=content.preemption_policy,
    )
    return cls, message
