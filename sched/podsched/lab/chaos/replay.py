"""The state of the cluster at every revision of a history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from podsched.api.conditions import (
    DISRUPTION_TARGET,
    TRUE,
    is_finished,
    is_terminating,
    pod_condition,
)
from podsched.api.objects import Node, PersistentVolumeClaim, Pod, PodDisruptionBudget
from podsched.lab.chaos.history import History
from podsched.lab.chaos.records import Change, Revision

PODS, NODES, CLAIMS = "pods/", "nodes/", "persistentvolumeclaims/"
BUDGETS = "poddisruptionbudgets/"


class PodChange(NamedTuple):
    """A pod before and after a revision (None: it is not there). ``uid``: of either."""

    key: str
    uid: str
    before: Pod | None
    after: Pod | None

    @property
    def bound(self) -> bool:
        """Whether this revision gave it a node."""
        return bool(node_of(self.after) and not node_of(self.before))

    @property
    def marked(self) -> bool:
        """Whether this revision began to delete it."""
        return _is_marked(self.after) and not _is_marked(self.before)


@dataclass(slots=True)
class World:
    """Objects by key without the plural: "default/web-0", "node-1"."""

    pods: dict[str, Pod] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    """Of the pods."""
    nodes: dict[str, Node] = field(default_factory=dict)
    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    budgets: dict[str, PodDisruptionBudget] = field(default_factory=dict)
    on_node: dict[str, dict[str, Pod]] = field(default_factory=lambda: defaultdict(dict))
    """The pods that take room, by node and key."""


class Moment(NamedTuple):
    """A revision, what it did to pods, and the world after it."""

    revision: Revision
    pods: tuple[PodChange, ...]
    world: World


def replay(history: History) -> Iterator[Moment]:
    """Yield every revision with the world after it, which the next one changes in place."""
    world = World()
    for revision in history.revisions:
        yield Moment(revision, apply(world, revision), world)


def apply(world: World, revision: Revision) -> tuple[PodChange, ...]:
    """Bring a world to a revision; return what that did to pods."""
    changed = [_apply(world, change) for change in revision.changes]
    return tuple(pod for pod in changed if pod is not None)


def _apply(world: World, change: Change) -> PodChange | None:
    kind, _, key = change.key.partition("/")
    if kind == "pods":
        return _apply_pod(world, key, change)
    stores: dict[str, dict[str, Any]] = {
        "nodes": world.nodes,
        "persistentvolumeclaims": world.claims,
        "poddisruptionbudgets": world.budgets,
    }
    store = stores.get(kind, {})
    store.pop(key, None)
    if change.object is not None:
        store[key] = change.object
    return None


def _apply_pod(world: World, key: str, change: Change) -> PodChange:
    before, after = world.pods.get(key), change.object
    uid = change.uid or world.uids.get(key, "")
    world.on_node[node_of(before)].pop(key, None)
    if after is None:
        world.pods.pop(key, None)
        world.uids.pop(key, None)
    else:
        world.pods[key] = after
        world.uids[key] = uid
        if node_of(after) and not is_finished(after):
            world.on_node[node_of(after)][key] = after
    return PodChange(key, uid, before, after)


def node_of(pod: Pod | None) -> str:
    """Return the node that a pod is bound to, "" for none."""
    return pod.spec.node_name if pod is not None else ""


def disrupted(pod: Pod) -> str:
    """Return the reason of a pod's DisruptionTarget condition if that is True, else ""."""
    condition = pod_condition(pod.status, DISRUPTION_TARGET)
    return condition.reason if condition is not None and condition.status == TRUE else ""


def _is_marked(pod: Pod | None) -> bool:
    return pod is not None and is_terminating(pod)
