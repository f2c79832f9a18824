"""A made-up cluster for the page: objects in memory that change as they are told to."""

from __future__ import annotations

from collections.abc import Collection

from podsched.api.conditions import POD_GROUP_SCHEDULED, set_condition
from podsched.api.objects import AnyObject, Event, Node, Pod, PodCondition, PodGroup, Timestamp
from podsched.ask.web.sources import KINDS, Change, Leadership, Load, Replica

START = 1_700_000_000.0


def node(name: str, cpu: str = "4", zone: str = "", *, cordoned: bool = False) -> Node:
    """A node that is ready."""
    made = Node()
    made.metadata.name = name
    made.metadata.labels["topology.kubernetes.io/zone"] = zone
    made.spec.unschedulable = cordoned
    made.status.allocatable.update({"cpu": cpu, "memory": "8Gi", "pods": "110"})
    made.status.conditions.add(type="Ready", status="True")
    return made


def pod(
    name: str,
    on: str = "",
    *,
    cpu: str = "500m",
    message: str = "",
    phase: str = "",
    at: float = START,
    group: str = "",
) -> Pod:
    """A pod: on a node, or pending because of a message."""
    made = Pod()
    if group:
        made.spec.scheduling_group.pod_group_name = group
    made.metadata.name, made.metadata.namespace = name, "default"
    made.metadata.creation_timestamp.FromSeconds(int(at))
    made.spec.node_name = on
    made.spec.containers.add(name="c").resources.requests["cpu"] = cpu
    made.status.phase = phase
    if on or message:
        condition = PodCondition(type="PodScheduled", status="True" if on else "False")
        condition.reason, condition.message = "" if on else "Unschedulable", message
        condition.last_transition_time.FromSeconds(int(at))
        made.status.conditions.append(condition)
    return made


def pod_group(
    name: str, min_count: int = 0, *, scheduled: bool = False, message: str = "", at: float = START
) -> PodGroup:
    """A gang, or a basic group (min_count 0): scheduled, or pending because of a message."""
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.metadata.creation_timestamp.FromSeconds(int(at))
    if min_count:
        made.spec.scheduling_policy.gang.min_count = min_count
    else:
        made.spec.scheduling_policy.basic.SetInParent()
    if scheduled or message:
        came = ("True", "Scheduled", "") if scheduled else ("False", "Unschedulable", message)
        set_condition(made.status, POD_GROUP_SCHEDULED, *came, Timestamp(seconds=int(at)))
    return made


def event(name: str, at: float, about: str = "p0") -> Event:
    """An event about a pod."""
    made = Event(type="Normal", reason="Scheduled", message=f"the event {name}", count=1)
    made.involved_object.kind, made.involved_object.name = "Pod", about
    made.involved_object.namespace = "default"
    made.last_timestamp.FromSeconds(int(at))
    return made


class World:
    """A ``Source``. following: whether changes are noted; lost: has the next question fail."""

    def __init__(self) -> None:
        kinds = (*KINDS, "ResourceClaim")
        self.objects: dict[str, dict[str, AnyObject]] = {kind: {} for kind in kinds}
        self.following = False
        self.lost = False
        self._changed: set[Change] = set()

    def put(self, found: AnyObject) -> None:
        """Add an object, or change it."""
        kind, meta = type(found).__name__, found.metadata
        if isinstance(found, Event):
            meta.namespace, meta.name = "default", found.message.rpartition(" ")[2]
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        self.objects[kind][key] = found
        self._changed.add((kind, key))

    def remove(self, kind: str, key: str) -> None:
        """Remove an object."""
        del self.objects[kind][key]
        self._changed.add((kind, key))

    def follow(self) -> None:
        self.following = True
        self._changed.clear()

    def unfollow(self) -> None:
        self.following = False

    def keys(self, kind: str) -> list[str]:
        return list(self.objects[kind])

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.objects[kind].get(key)

    def changed(self) -> Collection[Change] | None:
        found, self._changed = self._changed, set()
        if self.lost:
            self.lost = False
            return None
        return found


def load(at: float, scheduled: int = 0, **changes: float) -> Load:
    """What a replica says of itself."""
    values: dict[str, float] = {
        "unschedulable": 0,
        "errors": 0,
        "active": 0,
        "backoff": 0,
        "waiting": 0,
        "gated": 0,
        "attempt_p50": 0.0,
        "attempt_p99": 0.0,
        "pod_p50": 0.0,
        "pod_p99": 0.0,
    }
    return Load(at, scheduled, **{**values, **changes})  # type: ignore[arg-type]


def leadership(
    leader: str, term: int = 0, since: float = 0.0, *, loads: dict[str, Load] | None = None
) -> Leadership:
    """One of three replicas leads."""
    replicas = tuple(
        Replica(
            name,
            "leading" if name == leader else "standby",
            term if name == leader else 0,
            "",
            (loads or {}).get(name),
        )
        for name in ("a_00000001", "b_00000002", "c_00000003")
    )
    return Leadership("kube-system/kube-scheduler", leader, since, 0, "", replicas)
