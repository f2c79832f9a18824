"""Cluster events, and the queueing hints of plugins, which say whether an event can help a pod.

Resource and action names are kube-scheduler's (``framework/types.go``).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from podsched.framework.pods import PodInfo


class Resource(enum.StrEnum):
    """The kinds whose changes can make a pod schedulable."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    DEVICE_TAINT_RULE = "resource.k8s.io/DeviceTaintRule"
    WILDCARD = "*"


class ActionType(enum.IntFlag):
    """What happened to the object."""

    ADD = 1
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    #: The pod is being deleted. Not one of kube-scheduler's.
    UPDATE_POD_TERMINATING = 1 << 13
    UPDATE_OTHER = 1 << 14
    #: Any update: all bits from UPDATE_NODE_ALLOCATABLE to UPDATE_OTHER.
    UPDATE = 2 * UPDATE_OTHER - UPDATE_NODE_ALLOCATABLE
    ALL = ADD | DELETE | UPDATE


@functools.cache
def _action_text(action: ActionType) -> str:
    name = action.name or ""
    if not name or "|" in name or action is ActionType.UPDATE_OTHER:
        return "Update" if action & ActionType.UPDATE else "All"
    return name.title().replace("_", "")


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Actions on a resource: an event that happened, or those that a plugin registers for.

    ``label``: the value of the metrics' ``event`` label; "": made from resource and action.
    """

    resource: Resource
    action: ActionType
    label: str = ""

    def matches(self, other: ClusterEvent) -> bool:
        """Return whether this registration covers the event ``other``."""
        if self.is_wildcard or other.is_wildcard:
            return True
        return bool(self.action & other.action) and (
            self.resource is other.resource
            or (self.resource is Resource.POD and other.resource in _PODS)
        )

    @property
    def text(self) -> str:
        """The label, or resource and action: ``NodeAdd``, ``NodeUpdateNodeTaint``.

        Several updates at once are ``NodeUpdate``.
        """
        return self.label or f"{self.resource}{_action_text(self.action)}"

    @property
    def is_wildcard(self) -> bool:
        return self.resource is Resource.WILDCARD and self.action == ActionType.ALL


#: An assigned pod has a node.
ASSIGNED_POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE)
NODE_ADD = ClusterEvent(Resource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, ActionType.DELETE)
#: Wildcards, for which no hint is called.
UNSCHEDULABLE_TIMEOUT = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(Resource.WILDCARD, ActionType.ALL, "ForceActivate")

_PODS = frozenset({Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD})


class QueueingHint(enum.Enum):
    """A plugin's answer to whether an event helps a pod that it rejected."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"

    @classmethod
    def of(cls, helps: bool) -> QueueingHint:
        """Return QUEUE if the event helps, else SKIP."""
        return cls.QUEUE if helps else cls.SKIP


#: ``(pod, old, new) -> hint``: old and new are the event's protobuf objects (None where absent).
HintFn = Callable[[PodInfo, Any, Any], QueueingHint]


class HintIndex(Protocol):
    """An index of groups of waiting pods; ``framework.hint_index`` explains it and has two.

    ``member`` is a group's key, ``pod`` one of its pods.
    """

    def add(self, member: Hashable, pod: PodInfo) -> None: ...
    def remove(self, member: Hashable) -> None: ...
    def candidates(self, old: Any, new: Any) -> Iterable[Hashable] | None:
        """Return the members that the event may help; None for all of them.

        The result is only valid until the index changes.
        """


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """An event that a plugin registers, with the hint that says whether it helps a pod.

    Without a hint every such event helps. The queue calls a hint once for all pods of a class and a
    PodGroup that the same plugins rejected. So a hint may read only the class and the group (and
    the names of pods with ephemeral volumes). A hint that reads more of the pod sets ``per_pod``
    and is called for each pod. For changes of the waiting pod itself, hints are always called with
    that pod.

    ``index`` makes an index of waiting pods (``framework.hint_index``), so that the hint is called
    only for pods that the event can help. ``pods``, used with ``per_pod``, returns the uids of the
    only pods that the event can help, from its old and new objects.
    """

    event: ClusterEvent
    hint: HintFn | None = None
    per_pod: bool = False
    index: Callable[[], HintIndex] | None = None
    pods: Callable[[Any, Any], Iterable[str]] | None = None

    @classmethod
    def on(
        cls, resource: Resource, actions: ActionType, hint: HintFn | None = None, **more: Any
    ) -> ClusterEventWithHint:
        """Return the registration of some actions on a resource; ``more``: the other fields."""
        return cls(ClusterEvent(resource, actions), hint, **more)
