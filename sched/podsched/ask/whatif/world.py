"""A cluster in memory to try changes on, with the code that makes a replica's decisions.

A world has a cache, profiles and a decider like a replica. The cache is filled from objects or
copied from a replica. A placed pod counts for later decisions. Victims of a preemption leave at
once and the preemptor gets their room, as it would after their grace period.

Changes inside ``trial`` are undone at its end::

    with world.changes.trial():
        world.changes.remove(pod)
        fits = world.schedule([replacement])[0].node_name

Non-goals: extenders, Permit, time (backoff, grace periods), and controllers other than those that
replace pods, make and delete claims, provision volumes, and take devices back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, Pod
from podsched.ask.explain.changes.question import Question
from podsched.ask.whatif.claims import with_claims
from podsched.ask.whatif.deciding import Deciding, Outcome
from podsched.ask.whatif.world_changes import WorldChanges, WorldProfiles
from podsched.cache.cache import Cache
from podsched.config.load import SchedulerConfiguration
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import PluginFactory
from podsched.framework.pods import PodInfo
from podsched.lib.groups import lists_by_key
from podsched.term.state import build_state

#: Pods passed to the decider at a time.
_BATCH = 4096
#: Seed of the random numbers (preemption takes its first candidate node at random).
_SEED = 0


class World:
    """A cluster in memory that can be changed and scheduled; see the module."""

    def __init__(
        self,
        cache: Cache,
        profiles: Mapping[str, ProfileRuntime],
        chance: Chance,
        shares_pods: bool = False,
    ) -> None:
        """``profiles``: of plugins that see the cache's cluster; the first one is the default."""
        self._cache = cache
        #: The cluster as plugins see it.
        self.cluster = cache.cluster
        self.profiles = WorldProfiles(profiles)
        self.changes = WorldChanges(cache, self.profiles)
        self._decider = AcceleratedDecider(cache.cluster, profiles, chance)
        self.deciding = Deciding(cache, self.changes, self._decider, shares_pods)

    @classmethod
    def of_objects(
        cls,
        objects: Iterable[AnyObject],
        config: SchedulerConfiguration,
        plugins: Mapping[str, PluginFactory],
    ) -> Self:
        """Return a world with these objects, each with a uid, in any order.

        Raises QuantityError for an invalid amount, PluginError for a plugin that cannot be created.
        """
        state = build_state(config, plugins, seed=_SEED)
        for obj in sorted(with_claims(objects), key=_names_first):
            state.cache.apply(kind_of(obj).name, None, obj)
        return cls(state.cache, state.profiles, state.chance)

    @classmethod
    def on_copy(cls, cache: Cache, profiles: Mapping[str, ProfileRuntime]) -> World:
        """Return a world on a copy of a live cluster, to be used in another thread."""
        copied = cache.copy()
        handle = SimulatedHandle(copied.cluster)
        remade = {name: runtime.remade(handle) for name, runtime in profiles.items()}
        return cls(copied, remade, Chance(_SEED), shares_pods=True)

    def evaluation(self, pod: PodInfo) -> ClassEvaluation:
        """Return the evaluation of the pod's class: the nodes that it fits now."""
        evaluation = self._decider.evaluation(self.profiles.of(pod), pod)
        evaluation.refresh(pod)
        return evaluation

    def pods(self) -> list[PodInfo]:
        """Return the pods that have not ended, bound or not, by name."""
        return sorted(self.cluster.pods.values(), key=lambda pod: pod.key)

    def has_node(self, pod: PodInfo) -> bool:
        """Whether a pod is bound or assumed."""
        return pod.uid in self._cache.held

    def question(self, pod: PodInfo) -> Question:
        """Return the input of a search for changes with which a pod would fit here."""
        return Question(self.profiles.of(pod), self._cache, pod)

    def pending(self) -> list[PodInfo]:
        """Return the pods without a node that a profile decides on, in the queue's order."""
        waiting = [pod for pod in self.pods() if not pod.node_name and not self.has_node(pod)]
        ours = self.profiles.is_ours
        return self.profiles.in_queue_order(p for p in waiting if ours(p.pod) and not p.terminating)

    def waiting_with(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        """Return the pending pods that are decided together with these: of the same groups."""
        given = {pod.uid for pod in pods}
        groups = {pod.group for pod in pods if pod.group}
        if not groups:
            return []
        return [p for p in self.pending() if p.group in groups and p.uid not in given]

    def schedule(self, pods: Sequence[PodInfo], *, preempt: bool = True) -> list[Outcome]:
        """Schedule pods one after another in this order.

        Members of a pod group are decided together, when the first of them has its turn. preempt:
        whether pods that fit nowhere may preempt others, which are then removed. A pod without a
        node is tried again after others have got theirs, as its affinity may be to them.
        """
        groups = lists_by_key((pod.group, pod) for pod in pods if pod.group)
        outcomes: dict[str, Outcome] = {}
        for at, first in enumerate(pods):
            if first.uid in outcomes:
                continue
            if (gate := self.profiles.of(first).gate(first)) is not None:
                found = [Outcome(first, message=f"{gate[0]}: {gate[1].message}")]
            elif first.group:
                members = [p for p in groups[first.group] if self.profiles.of(p).gate(p) is None]
                found = self.deciding.decide_group(members, preempt=preempt)
            elif (known := self.deciding.known_failure(first, preempt=preempt)) is not None:
                found = [known]
            else:
                found = self.deciding.decide(_of_one_class(pods, at), preempt=preempt)
            outcomes.update((one.pod.uid, one) for one in found)
        has_node = [bool(outcomes[pod.uid].node_name) for pod in pods]
        last = max((at for at, has in enumerate(has_node) if has), default=0)
        left = [pod for pod, has in zip(pods[:last], has_node, strict=False) if not has]
        for one in self.schedule(left, preempt=False) if left else ():
            if one.node_name:
                outcomes[one.pod.uid] = replace(one, victims=outcomes[one.pod.uid].victims)
        return [outcomes[pod.uid] for pod in pods]


def _names_first(obj: AnyObject) -> tuple[bool, str, str]:
    """Sort key of objects: by name, pods last, so that rows and ties are reproducible."""
    return isinstance(obj, Pod), obj.metadata.namespace, obj.metadata.name


def _of_one_class(pods: Sequence[PodInfo], start: int) -> Sequence[PodInfo]:
    """Return the single pods from ``start`` on that share the first one's class."""
    cls, end = pods[start].cls, start + 1
    most = min(len(pods), start + _BATCH)
    while end < most and pods[end].cls is cls and not pods[end].group:
        end += 1
    return pods[start:end]


def pods_on(world: World, node_name: str) -> list[PodInfo]:
    """Return the pods that count on a node, by name: those that have not ended.

    None for a node that is not there.
    """
    nodes = world.cluster.nodes
    row = nodes.row_of(node_name)
    found = [] if row is None else nodes.pods(row).values()
    return sorted(found, key=lambda pod: pod.key)


def node_names(world: World) -> list[str]:
    """Return the names of all nodes, sorted."""
    return sorted(node.metadata.name for node in world.cluster.list("Node"))
