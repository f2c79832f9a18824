"""The state of the cluster at every revision of a history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from podsched.lab.chaos.history import History
from podsched.lab.chaos.records import BudgetFact, Change, ClaimFact, NodeFact, PodFact, Revision

T = TypeVar("T")

PODS, NODES, CLAIMS = "pods/", "nodes/", "persistentvolumeclaims/"
BUDGETS = "poddisruptionbudgets/"


class PodChange(NamedTuple):
    """A pod before and after a revision (None: it is not there). ``uid``: of either."""

    key: str
    uid: str
    before: PodFact | None
    after: PodFact | None

    @property
    def bound(self) -> bool:
        """Whether this revision gave it a node."""
        return bool(self.after and self.after.node and not (self.before and self.before.node))

    @property
    def marked(self) -> bool:
        """Whether this revision began to delete it."""
        was = self.before is not None and self.before.deleting
        return bool(self.after and self.after.deleting and not was)


@dataclass(slots=True)
class World:
    """Objects by key without the plural: "default/web-0", "node-1"."""

    pods: dict[str, PodFact] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    """Of the pods."""
    nodes: dict[str, NodeFact] = field(default_factory=dict)
    claims: dict[str, ClaimFact] = field(default_factory=dict)
    budgets: dict[str, BudgetFact] = field(default_factory=dict)
    on_node: dict[str, dict[str, PodFact]] = field(default_factory=lambda: defaultdict(dict))
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
    key = change.key
    if key.startswith(PODS):
        return _apply_pod(world, key.removeprefix(PODS), change)
    if key.startswith(NODES):
        _put(world.nodes, key.removeprefix(NODES), change.node)
    elif key.startswith(CLAIMS):
        _put(world.claims, key.removeprefix(CLAIMS), change.claim)
    elif key.startswith(BUDGETS):
        _put(world.budgets, key.removeprefix(BUDGETS), change.budget)
    return None


def _put(where: dict[str, T], key: str, fact: T | None) -> None:
    if fact is None:
        where.pop(key, None)
    else:
        where[key] = fact


def _apply_pod(world: World, key: str, change: Change) -> PodChange:
    before, after = world.pods.get(key), change.pod
    uid = change.uid or world.uids.get(key, "")
    if before is not None and before.node:
        world.on_node[before.node].pop(key, None)
    if after is None:
        world.pods.pop(key, None)
        world.uids.pop(key, None)
    else:
        world.pods[key] = after
        world.uids[key] = uid
        if after.node and not after.finished:
            world.on_node[after.node][key] = after
    return PodChange(key, uid, before, after)
