"""Intern pods as classes: pods that are equal in all that affects decisions share one object.

There are two steps. First a memo maps what is cheap to read (the bytes of the spec, labels,
namespace, owner) to the class. If it misses, the pod's *content* is computed and looked up: the
spec without fields that no decision depends on, and the requests. So pods of one template cost one
dictionary look-up, and pods that differ in host names, environment or mounted tokens still share
their class.

A pod has the same class before and after it is bound: the node name is not part of it.

Bounds: memo and contents refer to classes weakly, so a class is freed with its last pod. The latest
classes are kept anyway, because pods of a template may arrive one after another. A memo holding the
classes of all past pods would take 8 kB for each. A full memo drops its older half; until then it
keeps keys of freed classes, because a callback per freed class costs more than its key.
The compiled parts of the latest specs are also kept, for pods that differ only in labels. So are
these parts without requests, limits and volumes, for pods that differ in these.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary, ref

from google.protobuf.message import Message

from podsched.api.extended_resources import may_be_devices
from podsched.api.objects import copy_of, seconds_of
from podsched.api.pod_groups import group_key, label_group_key, queue_group_key
from podsched.api.resources import requested_amounts
from podsched.framework.pods import PodAmounts, PodClass, PodInfo, PodShape, SpecParts
from podsched.v1 import objects_pb2 as v1

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
PREEMPT_LOWER_PRIORITY: Final = "PreemptLowerPriority"

#: The fields that a class keeps; plugins do not see others.
_SPEC_FIELDS: Final = frozenset({
    "containers", "init_containers", "volumes", "priority", "preemption_policy", "scheduler_name",
    "node_selector", "affinity", "tolerations", "topology_spread_constraints", "scheduling_gates",
    "overhead", "resources", "host_network", "os", "host_users", "resource_claims",
    "restart_policy", "workload_ref",
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


#: Max entries of each memo of specs (compiled, requests, bare); a full one is cleared.
_SPECS_KEPT: Final = 512
#: Shared, because each empty set takes 216 bytes.
_NO_LABELS: Final[frozenset[tuple[str, str]]] = frozenset()


_Labels = tuple[tuple[str, str], ...]


class _Read(NamedTuple):
    """The parts of a pod by which the memo finds its class; they are cheap to read.

    ``spec`` is serialized, without the node's name, and mostly without the PodGroup; ``owner`` is
    the controller; ``resize`` is the result of ``_resize``.
    """

    namespace: str
    spec: bytes
    labels: _Labels
    owner: tuple[str, str, str] | None
    resize: Hashable


class _ShapeContent(NamedTuple):
    """The content by which shapes are interned; ``bare`` is ``SpecParts.bare``, serialized.

    ``name``: the part of the pod from which names of claims are made, else None.
    """

    namespace: str
    bare: bytes
    labels: frozenset[tuple[str, str]] = _NO_LABELS
    owner: tuple[str, str, str] | None = None
    volumes: tuple[bytes, ...] = ()
    name: Hashable = None


class _SpecPart(NamedTuple):
    """The compiled form of a spec: its relevant parts, ``bare`` serialized, and its requests.

    ``shape``: the shape of pods with this spec, without labels, owner and name.
    """

    parts: SpecParts
    bare: bytes
    amounts: PodAmounts
    shape: PodShape


class PodClasses:
    """Interns pods as classes. Ids start at 1 and are never used twice."""

    def __init__(self, memo_size: int = 16_384, kept: int = 1024) -> None:
        #: Whether labels and annotations name pod groups, too (GangSchedulingArgs.labelGroups).
        self.label_groups = False
        #: Whether Kueue's label names pod groups.
        self.queue_groups = True
        self._ids = itertools.count(1)
        self._memo_size = memo_size
        self._memo: dict[Hashable, ref[PodClass]] = {}
        #: Keys of pods whose class depends on the name; the memo's key then includes name and uid.
        self._named: dict[Hashable, None] = {}
        self._kept: deque[PodClass] = deque(maxlen=kept)
        self._specs: dict[Hashable, _SpecPart] = {}
        self._amounts: dict[Hashable, PodAmounts] = {}
        #: Relevant parts of specs without requests, limits and volumes, also serialized.
        self._bare: dict[bytes, tuple[v1.PodSpec, bytes]] = {}
        self._shapes: WeakValueDictionary[Hashable, PodShape] = WeakValueDictionary()
        self._by_content: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()

    def fresh(self) -> PodClasses:
        """Return a further one, without classes, by which the same labels name groups."""
        made = PodClasses()
        made.label_groups, made.queue_groups = self.label_groups, self.queue_groups
        return made

    def __len__(self) -> int:
        return len(self._by_content)

    def intern(self, pod: v1.Pod) -> PodClass:
        """Return the pod's class. Raises QuantityError for a request that is not a quantity."""
        meta = pod.metadata
        spec = pod.spec
        spec_bytes = _without_place(spec) if spec.node_name else spec.SerializeToString()
        owner = _controller(meta) if meta.owner_references else None
        labels: _Labels = ()
        if meta.labels:
            # Not sorted: pods with another order miss the memo and are found by their content.
            of_pod = meta.labels  # Its ``items`` method takes one and a half times as long.
            labels = tuple([(name, of_pod[name]) for name in of_pod])
        read = (meta.namespace, spec_bytes, labels, owner, _resize(pod))
        key: Hashable = read
        found = self._memo.get(key)
        if found is None and key in self._named:
            key = (key, _name_part(pod))
            found = self._memo.get(key)
        cls = found() if found is not None else None
        if cls is not None:
            return cls
        first = _Read(*read)
        if not spec.HasField("scheduling_group") or spec.node_name or _depends_on_name(spec):
            return self._intern_slowly(pod, key, first)
        return self._intern_member(pod, first)

    def _intern_member(self, pod: v1.Pod, read: _Read) -> PodClass:
        """Intern a pod of a PodGroup that the memo does not have, by its spec without the group.

        So all groups of one template share a class, which is also found for bound members.
        """
        plain = read._replace(spec=_without_place(pod.spec))
        found = self._memo.get(plain)
        cls = (found() if found is not None else None) or self._intern_slowly(pod, plain, plain)
        _forget_half(self._memo, self._memo_size)
        self._memo[read] = ref(cls)
        return cls

    def _intern_slowly(self, pod: v1.Pod, key: Hashable, read: _Read) -> PodClass:
        """Find or create a class that the memo does not have, and put it into the memo."""
        _forget_half(self._memo, self._memo_size)
        _forget_half(self._named, self._memo_size)
        name = _name_part(pod)
        # The first such pod: later ones find their content in ``_named`` and look up the longer
        # key.
        if name is not None and key == read:
            self._named[key] = None
            key = (key, name)
        found = self._by_its_content(pod, read, name)
        # A weak reference, and the latest classes strongly: see the module.
        self._memo[key] = ref(found)
        self._kept.append(found)
        return found

    def _by_its_content(self, pod: v1.Pod, read: _Read, name: Hashable) -> PodClass:
        """Return the class with the pod's content, created if there is none."""
        part, owner = self._spec_part(pod, read), read.owner
        shape = part.shape
        if read.labels or owner is not None or name is not None:
            labels = frozenset(read.labels) if read.labels else _NO_LABELS
            volumes = part.parts.volumes
            shape = self._shape(
                _ShapeContent(read.namespace, part.bare, labels, owner, volumes, name), part.shape
            )
        # Shapes are interned, and live as long as a class has them: they stand for their content.
        content = (shape, part.parts.amounts, part.amounts.key)
        found = self._by_content.get(content)
        if found is None:
            spec = part.parts.bare
            found = PodClass(
                id=next(self._ids),
                namespace=read.namespace,
                labels=dict(read.labels),
                spec_parts=part.parts,
                controller=owner,
                amounts=part.amounts,
                scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER_NAME,
                priority=spec.priority,
                preemption_policy=spec.preemption_policy or PREEMPT_LOWER_PRIORITY,
                shape=shape,
            )
            self._by_content[content] = found
        return found

    def _shape(self, content: _ShapeContent, plain: PodShape | None = None) -> PodShape:
        """Return the shape of a content; it holds references to its smaller shapes.

        ``plain``: the shape without labels, owner and name, if known.
        """
        found = self._shapes.get(content)
        if found is None:
            namespace, bare, labels, owner, volumes, name = content
            unlabelled = unmounted = None
            if labels or owner:
                unlabelled = plain
                if plain is None or name is not None:
                    rest = _ShapeContent(namespace, bare, volumes=volumes, name=name)
                    unlabelled = self._shape(rest)
            if volumes or name:
                unmounted = self._shape(_ShapeContent(namespace, bare, labels, owner))
            # Shapes are interned weakly, so these references keep the smaller ones alive.
            found = self._shapes[content] = PodShape({}, unlabelled, unmounted)
        return found

    def _spec_part(self, pod: v1.Pod, read: _Read) -> _SpecPart:
        """Return the compiled spec; pods that differ only in labels share it."""
        namespace, resize = read.namespace, read.resize
        key = (namespace, read.spec, resize)
        found = self._specs.get(key)
        if found is None:
            if len(self._specs) >= _SPECS_KEPT:
                self._specs.clear()
            parts, bare = self._relevant(pod.spec)
            # ``resize`` is part of the key: a resized pod requests what its status says.
            amounts = self._amounts_of(pod, (namespace, bare, parts.amounts, resize))
            shape = self._shape(_ShapeContent(namespace, bare, volumes=parts.volumes))
            found = self._specs[key] = _SpecPart(parts, bare, amounts, shape)
        return found

    def _amounts_of(self, pod: v1.Pod, key: Hashable) -> PodAmounts:
        """Return the requests; pods that differ only in labels and volumes share the object."""
        found = self._amounts.get(key)
        if found is None:
            if len(self._amounts) >= _SPECS_KEPT:
                self._amounts.clear()
            found = self._amounts[key] = PodAmounts(*requested_amounts(pod))
        return found

    def _relevant(self, spec: v1.PodSpec) -> tuple[SpecParts, bytes]:
        """Return the relevant parts of a spec, and ``bare`` serialized."""
        rest = copy_of(spec)
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


def _without_place(spec: v1.PodSpec) -> bytes:
    """Return a spec without the node's name and the PodGroup, serialized."""
    # A new message each time, because a reused one never frees the memory of its earlier contents
    # (2 to 6 kB a pod).
    return copy_of(spec, without=("node_name", "scheduling_group")).SerializeToString()


def _forget_half(memo: dict[Hashable, Any], size: int) -> None:
    """Drop the older half of a full memo."""
    if len(memo) >= size:
        for old in list(itertools.islice(memo, size // 2)):
            del memo[old]


def _take_amounts(container: v1.Container) -> bytes:
    """Remove requests and limits from a container and return them, serialized.

    Requests for which devices may be allocated stay: DynamicResources reads them, too.
    """
    resources = container.resources
    if not container.HasField("resources") or resources.claims:
        return b""
    requests = resources.requests
    kept = {name: requests[name] for name in requests if may_be_devices(name)}
    for name in kept:
        del requests[name]
    taken = resources.SerializeToString(deterministic=True)
    container.ClearField("resources")
    if kept:
        container.resources.requests.update(kept)
    return taken


def _take_volumes(spec: v1.PodSpec) -> tuple[bytes, ...]:
    """Remove the volumes from a spec and return the relevant ones, serialized."""
    relevant = [volume for volume in spec.volumes if _has_source(volume)]
    for volume in relevant:
        if not volume.HasField("ephemeral"):
            # The names of volumes only link them to mounts. Those of ephemeral volumes are also
            # part of the names of their claims.
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
    """Return the part of the status that affects requests: in-place resize of a running pod."""
    if not pod.HasField("status"):
        return None
    status = pod.status
    running, begun = status.container_statuses, status.init_container_statuses
    if not (running or begun or status.HasField("resources")):
        return None  # A shortcut for pending pods, which takes a quarter of the time.
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


def _depends_on_name(spec: v1.PodSpec) -> bool:
    """Return whether decisions depend on the pod's name, from which names of claims may be made."""
    volumes = spec.volumes
    return bool(spec.resource_claims) or (
        bool(volumes) and any(volume.HasField("ephemeral") for volume in volumes)
    )


def _name_part(pod: v1.Pod) -> Hashable:
    if not _depends_on_name(pod.spec):
        return None
    claims = tuple(c.SerializeToString() for c in pod.status.resource_claim_statuses)
    return pod.metadata.name, pod.metadata.uid, claims


def relevant_spec(spec: v1.PodSpec) -> v1.PodSpec:
    """Return a copy of the spec with only what can influence a decision."""
    copy = copy_of(spec)
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


def make_pod_info(pod: v1.Pod, classes: PodClasses, known: PodInfo | None = None) -> PodInfo:
    """Return the scheduler's view of a pod. Raises QuantityError as ``intern`` does.

    ``known``: an earlier version of the object of this namespace and name. Immutable fields are
    copied from it, which is faster and lets both versions share the strings.
    """
    cls = classes.intern(pod)
    meta = pod.metadata
    uid = meta.uid
    if known is not None and known.uid == uid:
        uid, key, name, created = known.uid, known.key, known.name, known.creation_time
    else:
        name = meta.name
        key = f"{cls.namespace}/{name}"
        created = seconds_of(meta.creation_timestamp)
    nominated, started = "", 0.0
    if pod.HasField("status"):
        status = pod.status
        nominated = status.nominated_node_name
        if status.HasField("start_time"):
            started = seconds_of(status.start_time)
    return PodInfo(
        uid,
        key,
        name,
        cls,
        pod,
        pod.spec.node_name,
        nominated,
        started,
        created,
        meta.HasField("deletion_timestamp"),
        group_key(pod)
        or (label_group_key(pod) if classes.label_groups else "")
        # The labels of the class, because those of a message take ten times as long.
        or (queue_group_key(cls.namespace, cls.labels) if classes.queue_groups else ""),
    )
