"""Interning pods by what can influence a decision.

Two steps: a memo from everything that is cheap to read (the bytes of the spec, labels, namespace,
owner) straight to the class, and behind it the real identity, the *content*: the spec without
fields that no decision depends on, and the computed requests. So pods made from one template cost
one dictionary look-up, and pods that differ in host names, environment or mounted tokens still
share their class.

A pod has the same class before and after it is bound: the node name is not part of it.

Bounds: memo and contents refer to classes weakly, so a class goes with the last pod that has it,
except the classes met last, which are kept: pods of a template may come one after another. A memo
that held the classes of all pods of the past would take 8 kB for each. The memo forgets its older
half when full, as pods of one class may differ in what is cheap to read.
What is compiled of the latest specs is remembered as well, for pods that differ in labels alone;
so is what is left of them without requests, limits and volumes, for pods that differ in these.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from google.protobuf.message import Message

from podsched.api.resources import requested_amounts
from podsched.framework.pods import PodAmounts, PodClass, PodInfo, PodShape, SpecParts
from podsched.v1 import objects_pb2 as v1

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"

_SPEC_FIELDS: Final = frozenset({
    "containers", "init_containers", "volumes", "priority", "preemption_policy", "scheduler_name",
    "node_selector", "affinity", "tolerations", "topology_spread_constraints", "scheduling_gates",
    "overhead", "resources", "host_network", "os", "host_users", "scheduling_group",
    "resource_claims", "restart_policy", "workload_ref",
})  # fmt: skip
_CONTAINER_FIELDS: Final = frozenset({
    "name", "image", "resources", "ports", "restart_policy", "restart_policy_rules",
})  # fmt: skip
#: Sources of volumes that have a place or a limit; config maps, secrets and the like have neither.
_VOLUME_FIELDS: Final = frozenset({
    "persistent_volume_claim", "ephemeral", "gce_persistent_disk", "aws_elastic_block_store",
    "iscsi", "rbd", "csi", "azure_disk", "azure_file", "cinder", "vsphere_volume",
    "portworx_volume", "image",
})  # fmt: skip


_SPECS_KEPT: Final = 512
#: One for all: each takes 216 bytes.
_NO_LABELS: Final[frozenset[tuple[str, str]]] = frozenset()


class _Read(NamedTuple):
    """What is read of every pod: its spec serialized, its controller, its resize (``_resize``)."""

    spec: bytes
    owner: tuple[str, str, str] | None
    resize: Hashable


class _ShapeContent(NamedTuple):
    """What makes a shape; ``bare`` is the spec without amounts and volumes, serialized.

    ``name``: what names of claims are made from.
    """

    namespace: str
    bare: bytes
    labels: frozenset[tuple[str, str]] = _NO_LABELS
    owner: tuple[str, str, str] | None = None
    volumes: tuple[bytes, ...] = ()
    name: Hashable = None


class _SpecPart(NamedTuple):
    """What is compiled of a spec: its relevant parts, the bare one serialized, what it requests."""

    parts: SpecParts
    bare: bytes
    amounts: PodAmounts


class PodClasses:
    """The interner. Ids start at 1 and are never used twice."""

    def __init__(self, memo_size: int = 16_384, kept: int = 1024) -> None:
        self._ids = itertools.count(1)
        self._memo_size = memo_size
        self._memo: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        #: What depends on the pod's name: name and uid are then part of the memo's key.
        self._named: dict[Hashable, None] = {}
        self._kept: deque[PodClass] = deque(maxlen=kept)
        self._specs: dict[Hashable, _SpecPart] = {}
        self._amounts: dict[Hashable, PodAmounts] = {}
        #: The relevant part of specs without requests, limits and volumes, and this serialized.
        self._bare: dict[bytes, tuple[v1.PodSpec, bytes]] = {}
        self._shapes: WeakValueDictionary[Hashable, PodShape] = WeakValueDictionary()
        self._by_content: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_content)

    def intern(self, pod: v1.Pod) -> PodClass:
        """Return the pod's class. Raises QuantityError for a request that is not a quantity."""
        meta = pod.metadata
        spec = pod.spec
        if spec.node_name:
            # A fresh message each time: one that is kept and refilled never gives back the memory
            # of what it held (2 to 6 kB a pod).
            unbound = v1.PodSpec()
            unbound.CopyFrom(spec)
            unbound.node_name = ""
            spec_bytes = unbound.SerializeToString()
        else:
            spec_bytes = spec.SerializeToString()
        owner = _controller(meta) if meta.owner_references else None
        labels = tuple(meta.labels.items()) if meta.labels else ()
        resize = _resize(pod)
        key: Hashable = (meta.namespace, spec_bytes, labels, owner, resize)
        found = self._memo.get(key)
        if found is None and key in self._named:
            key = (key, _name_part(pod))
            found = self._memo.get(key)
        return found or self._intern_slowly(pod, key, _Read(spec_bytes, owner, resize))

    def _intern_slowly(self, pod: v1.Pod, key: Hashable, read: _Read) -> PodClass:
        for memo in (self._memo, self._named):
            if len(memo) >= self._memo_size:
                for old in list(itertools.islice(memo, self._memo_size // 2)):
                    memo.pop(old, None)
        name = _name_part(pod)
        if name is not None and not (isinstance(key, tuple) and len(key) == 2):
            self._named[key] = None
            key = (key, name)
        found = self._memo[key] = self._by_its_content(pod, read, name)
        self._kept.append(found)
        return found

    def _by_its_content(self, pod: v1.Pod, read: _Read, name: Hashable) -> PodClass:
        part, owner = self._spec_part(pod, read), read.owner
        spec = part.parts.bare
        labels = dict(pod.metadata.labels)
        shape_content = _ShapeContent(
            pod.metadata.namespace,
            part.bare,
            frozenset(labels.items()) if labels else _NO_LABELS,
            owner,
            part.parts.volumes,
            name,
        )
        content = (shape_content, part.parts.amounts, part.amounts.key)
        found = self._by_content.get(content)
        if found is None:
            found = PodClass(
                id=next(self._ids),
                namespace=pod.metadata.namespace,
                labels=labels,
                spec_parts=part.parts,
                controller=owner,
                amounts=part.amounts,
                scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
                priority=spec.priority,
                preemption_policy=spec.preemption_policy or PREEMPT_LOWER_PRIORITY,
                shape=self._shape(shape_content),
            )
            self._by_content[content] = found
        return found

    def _shape(self, content: _ShapeContent) -> PodShape:
        """Return the shape, which keeps those with less alive."""
        found = self._shapes.get(content)
        if found is None:
            namespace, bare, labels, owner, volumes, name = content
            less: list[PodShape | None] = [None, None]
            if labels or owner:
                rest = _ShapeContent(namespace, bare, volumes=volumes, name=name)
                less[0] = self._shape(rest)
            if volumes or name:
                less[1] = self._shape(_ShapeContent(namespace, bare, labels, owner))
            found = self._shapes[content] = PodShape({}, *less)
        return found

    def _spec_part(self, pod: v1.Pod, read: _Read) -> _SpecPart:
        """Return what is compiled of the spec, which pods share that differ in labels alone."""
        namespace, resize = pod.metadata.namespace, read.resize
        key = (namespace, read.spec, resize)
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= _SPECS_KEPT:
                self._specs.clear()
            parts, bare = self._relevant(pod.spec)
            amounts = self._amounts_of(pod, (namespace, bare, parts.amounts, resize))
            found = self._specs[key] = _SpecPart(parts, bare, amounts)
        return found

    def _amounts_of(self, pod: v1.Pod, key: Hashable) -> PodAmounts:
        """Return what is requested, which pods share that differ in labels and volumes alone."""
        found = self._amounts.get(key)
        if found is None:
            if len(self._amounts) >= _SPECS_KEPT:
                self._amounts.clear()
            found = self._amounts[key] = PodAmounts(*requested_amounts(pod))
        return found

    def _relevant(self, spec: v1.PodSpec) -> tuple[SpecParts, bytes]:
        """Return the relevant parts of a spec, and the bare one serialized."""
        rest = v1.PodSpec()
        rest.CopyFrom(spec)
        amounts = tuple(map(_take_amounts, (*rest.containers, *rest.init_containers)))
        volumes = _take_volumes(rest) if rest.volumes else ()
        key = rest.SerializeToString()
        known = self._bare.get(key)
        if known is None:
            if len(self._bare) >= _SPECS_KEPT:
                self._bare.clear()
            bare = relevant_spec(rest)
            known = self._bare[key] = bare, bare.SerializeToString(deterministic=True)
        return SpecParts(known[0], amounts, volumes), known[1]


def _take_amounts(container: v1.Container) -> bytes:
    """Take requests and limits out of a container and return them, serialized."""
    resources = container.resources
    if not container.HasField("resources") or resources.claims:
        return b""
    taken = resources.SerializeToString(deterministic=True)
    container.ClearField("resources")
    return taken


def _take_volumes(spec: v1.PodSpec) -> tuple[bytes, ...]:
    """Take the volumes out of a spec and return the relevant ones, serialized."""
    relevant = [volume for volume in spec.volumes if _has_source(volume)]
    for volume in relevant:
        if not volume.HasField("ephemeral"):
            volume.name = ""
    taken = tuple(volume.SerializeToString(deterministic=True) for volume in relevant)
    spec.ClearField("volumes")
    return taken


def _controller(meta: v1.ObjectMeta) -> tuple[str, str, str] | None:
    for reference in meta.owner_references:
        if reference.controller:
            return reference.kind, reference.name, reference.uid
    return None


def _resize(pod: v1.Pod) -> Hashable:
    """Return the part of the status that counts in requests: in-place resize of a running pod."""
    if not pod.HasField("status"):
        return None
    status = pod.status
    running, begun = status.container_statuses, status.init_container_statuses
    if not running and not begun and not status.HasField("resources"):
        return None  # as for all that wait, in a quarter of the time
    parts: list[Hashable] = [
        (
            s.name,
            s.resources.SerializeToString(deterministic=True),
            *sorted(s.allocated_resources.items()),
        )
        for s in (*running, *begun)
        if s.HasField("resources")
    ]
    if not parts and not status.HasField("resources"):
        return None
    parts.append(status.resources.SerializeToString(deterministic=True))
    parts.extend(sorted(status.allocated_resources.items()))
    parts.extend(c.reason.encode() for c in status.conditions if c.type == "PodResizePending")
    return tuple(parts)


def _depends_on_name(pod: v1.Pod) -> bool:
    """Whether decisions depend on the pod's name: names of claims may be made from it."""
    return bool(pod.spec.resource_claims) or any(
        volume.HasField("ephemeral") for volume in pod.spec.volumes
    )


def _name_part(pod: v1.Pod) -> Hashable:
    if not _depends_on_name(pod):
        return None
    claims = tuple(c.SerializeToString() for c in pod.status.resource_claim_statuses)
    return pod.metadata.name, pod.metadata.uid, claims


def relevant_spec(spec: v1.PodSpec) -> v1.PodSpec:
    """Return a copy of the spec with only what can influence a decision."""
    copy = v1.PodSpec()
    copy.CopyFrom(spec)
    _keep(copy, _SPEC_FIELDS)
    for container in (*copy.containers, *copy.init_containers):
        _keep(container, _CONTAINER_FIELDS)
        ports = [port for port in container.ports if port.host_port]
        if len(ports) != len(container.ports):
            container.ClearField("ports")
            container.ports.extend(ports)
    volumes = _take_volumes(copy) if copy.volumes else ()
    for volume in volumes:
        copy.volumes.add().MergeFromString(volume)
    return copy


def _has_source(volume: v1.Volume) -> bool:
    return any(field.name in _VOLUME_FIELDS for field, _ in volume.ListFields())


def _keep(message: Message, names: frozenset[str]) -> None:
    for field, _ in message.ListFields():
        if field.name not in names:
            message.ClearField(field.name)


def make_pod_info(pod: v1.Pod, classes: PodClasses) -> PodInfo:
    """Return the scheduler's view of a pod. Raises QuantityError as ``intern`` does."""
    cls = classes.intern(pod)
    meta = pod.metadata
    has_status = pod.HasField("status")
    status = pod.status
    return PodInfo(
        uid=meta.uid,
        key=f"{meta.namespace}/{meta.name}",
        name=meta.name,
        cls=cls,
        pod=pod,
        node_name=pod.spec.node_name,
        nominated_node_name=status.nominated_node_name if has_status else "",
        start_time=_seconds(status, "start_time") if has_status else 0.0,
        creation_time=_seconds(meta, "creation_timestamp"),
        terminating=meta.HasField("deletion_timestamp"),
    )


def _seconds(message: Message, field: str) -> float:
    if not message.HasField(field):
        return 0.0
    stamp = getattr(message, field)
    return float(stamp.seconds + stamp.nanos / 1e9)
