"""Pods as the scheduler sees them.

A *pod class* (``PodClass``) is everything of a pod that can influence a decision. Equal content is
one object: pods made from one template share their class, so it is compiled once, and each further
pod costs a dictionary look-up. ``PodInfo`` adds what differs from pod to pod.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podsched.v1 import objects_pb2 as v1


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodShape:
    """The common part of pod classes that differ only in requests and limits.

    Equal shapes are one object. A plugin that compiles data from even less of a pod stores it in a
    smaller shape, which more classes share: without labels and owner, without volumes (and without
    the pod's name, if names of claims are made from it), or ``plain``, without any of these.
    """

    #: As ``PodClass.compiled``, for data that does not depend on requests and limits.
    compiled: dict[str, Any] = field(default_factory=dict)
    #: The shapes of such pods without labels, and without volumes; None where there are none.
    _unlabelled: PodShape | None = None
    _unmounted: PodShape | None = None

    @property
    def without_labels(self) -> PodShape:
        """The shape of such pods without labels and owner."""
        return self._unlabelled or self

    @property
    def without_volumes(self) -> PodShape:
        """The shape of such pods without volumes."""
        return self._unmounted or self

    @property
    def plain(self) -> PodShape:
        """The shape of such pods without labels, owner and volumes."""
        rest = self._unmounted or self
        return rest._unlabelled or rest


@dataclass(eq=False, slots=True)
class PodAmounts:
    """The requests of a pod class; classes that differ only in labels, owner and volumes share it.

    Compared by identity. ``requests`` are in milli-units for cpu and in whole units (bytes,
    devices) for the rest, as in kube-scheduler's ``Resource``; ``nonzero`` are (milli cpu, bytes of
    memory) with the scoring defaults for containers without requests (100m, 200Mi); ``scored`` is
    the amount that NodeResourcesFit's Score counts, with these defaults.
    """

    requests: Mapping[str, int]
    nonzero: tuple[int, int]
    scored: Mapping[str, int]
    #: As ``PodClass.compiled``.
    compiled: dict[str, Any] = field(default_factory=dict)
    #: ``requests`` in a comparable form. Kept here, because each copy takes 200 bytes.
    requested: frozenset[tuple[str, int]] = field(init=False, repr=False)
    #: Equal for equal amounts.
    key: Hashable = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.requested = frozenset(self.requests.items())
        same = self.scored is self.requests
        scored = self.requested if same else frozenset(self.scored.items())
        self.key = (self.requested, self.nonzero, scored)


@dataclass(eq=False, slots=True)
class SpecParts:
    """The spec of pod classes without fields that cannot influence a decision; read-only.

    ``bare`` is the spec without environment, mounts, host name, node name and the like. It also
    lacks the two other parts, serialized: ``amounts`` (requests and limits of containers and init
    containers) and ``volumes``. Both are empty if ``bare`` contains them.
    """

    bare: v1.PodSpec
    amounts: tuple[bytes, ...] = ()
    volumes: tuple[bytes, ...] = ()
    _whole: v1.PodSpec | None = field(default=None, init=False, repr=False)
    _mounting: v1.PodSpec | None = field(default=None, init=False, repr=False)

    @property
    def mounting(self) -> v1.PodSpec:
        """A spec that has the volumes; other fields may be missing, which saves copying them."""
        if not self.volumes:
            return self.bare
        if self._mounting is None:
            self._mounting = v1.PodSpec()
            self._add_volumes(self._mounting)
        return self._mounting

    @property
    def whole(self) -> v1.PodSpec:
        """The whole spec, built on first use, because most classes never need it."""
        if self._whole is None:
            self._whole = self._put_together()
        return self._whole

    def _put_together(self) -> v1.PodSpec:
        if not self.volumes and not any(self.amounts):
            return self.bare
        made = v1.PodSpec()
        made.CopyFrom(self.bare)
        self._add_volumes(made)
        if any(self.amounts):
            containers = (*made.containers, *made.init_containers)
            for container, taken in zip(containers, self.amounts, strict=True):
                if taken:
                    container.resources.MergeFromString(taken)
        return made

    def _add_volumes(self, spec: v1.PodSpec) -> None:
        for volume in self.volumes:
            spec.volumes.add().MergeFromString(volume)


@dataclass(eq=False, slots=True, weakref_slot=True)
class PodClass:
    """Everything of a pod that can influence a decision; equal pods share one object.

    ``PodClasses`` creates classes and refers to them weakly: a class lives as long as some pod or
    cache holds it. ``id`` is never used again.
    """

    id: int
    namespace: str
    labels: Mapping[str, str]
    spec_parts: SpecParts
    #: (kind, name, uid) of the controlling owner, for the system default spread constraints.
    controller: tuple[str, str, str] | None
    amounts: PodAmounts
    scheduler_name: str
    priority: int
    preemption_policy: str
    #: By default each class has its own shape.
    shape: PodShape = field(default_factory=PodShape)
    #: Plugins' compiled forms of this class, by plugin name; filled on first use and never
    #: invalidated, so it may hold only what depends on the class alone. It may be emptied.
    compiled: dict[str, Any] = field(default_factory=dict)

    @property
    def requests(self) -> Mapping[str, int]:
        """The pods' requests: see ``PodAmounts``."""
        return self.amounts.requests

    @property
    def nonzero(self) -> tuple[int, int]:
        """The pods' requests as scores count them: see ``PodAmounts``."""
        return self.amounts.nonzero

    @property
    def spec(self) -> v1.PodSpec:
        """The spec without fields that cannot influence a decision; read-only."""
        return self.spec_parts.whole

    @property
    def volumes(self) -> Sequence[v1.Volume]:
        """The spec's volumes; reading only these is cheaper if each pod has its own."""
        return self.spec_parts.mounting.volumes


@dataclass(eq=False, slots=True)
class PodInfo:
    """One pod. ``key`` is "namespace/name"; times are in seconds since 1970, 0.0 if unset."""

    uid: str
    key: str
    name: str
    cls: PodClass
    pod: v1.Pod
    node_name: str = ""
    nominated_node_name: str = ""
    start_time: float = 0.0
    creation_time: float = 0.0
    #: Whether metadata.deletionTimestamp is set.
    terminating: bool = False
    #: "namespace/name" of the pod's PodGroup, "" for a pod without one. It is not part of the
    #: class, so that members of different groups share evaluations: a group restricts where its
    #: pods may go by placements, never by what a plugin reads of a pod.
    group: str = ""

    @property
    def namespace(self) -> str:
        return self.cls.namespace

    @property
    def priority(self) -> int:
        return self.cls.priority


#: Max failed attempts remembered per pod, for explanations; more than 1 (see ``count_failure``).
REMEMBERED_FAILURES = 5


class FailedAttempt(NamedTuple):
    """An attempt that ended without a node; ``plugins`` is empty after an error."""

    time: float
    number: int
    plugins: tuple[str, ...]


@dataclass(eq=False, slots=True)
class QueuedPodInfo:
    """A pod in the scheduling queue (kube-scheduler's ``QueuedPodInfo``).

    Times are seconds of the queue's clock.
    """

    info: PodInfo
    timestamp: float
    initial_attempt_timestamp: float | None = None
    #: When it was last popped: the beginning of its latest attempt.
    popped_at: float = 0.0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    backoff_expiration: float = 0.0
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    was_flushed_from_unschedulable: bool = False
    #: Order of entry, for pods of equal timestamp; the queue sets it whenever it sets
    #: ``timestamp``.
    sequence: int = 0
    #: The last failed attempts, the latest at the end.
    failures: tuple[FailedAttempt, ...] = ()

    @property
    def key(self) -> str:
        return self.info.key
