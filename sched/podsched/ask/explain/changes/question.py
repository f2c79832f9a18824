"""A pending pod, a cluster, and the results of the filters: the input of a search."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import chain, islice
from typing import Final, TypeVar

import numpy as np
import yaml

from podsched.api.manifest import merge_patch, to_manifest
from podsched.api.resources import PODS
from podsched.ask.explain.changes.claim_release import ClaimsMade, claims_made, release_claims
from podsched.ask.explain.explanation import reference
from podsched.ask.explain.fitting import fit, with_nominees
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.cache.trial import Trial
from podsched.decide.evaluation.filtering import filter_one
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import EXCLUDED
from podsched.framework.nodes import Bools, Int64s
from podsched.framework.plugin import CycleState, Remedy
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicts, status_of
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Change

#: Max changes of a kind that are tried. Each is an evaluation of all nodes (2 ms at 5,000 nodes).
MOST_TRIES: Final = 48
_EXAMPLES: Final = 3

Candidate = TypeVar("Candidate")


class Kind(StrEnum):
    """The kinds of changes that can make a pod fit, each with its own cost."""

    REQUESTS = "requests"
    TOLERATION = "toleration"
    NODE_SELECTOR = "node-selector"
    AFFINITY = "affinity"
    SPREAD = "spread"
    PORT = "port"
    LABEL = "label"
    DEVICE_COUNT = "device-count"
    DEVICE_SELECTOR = "device-selector"
    DEVICE_CONSTRAINT = "device-constraint"
    GATES = "gates"
    PODS_GONE = "pods-gone"
    UNCORDON = "uncordon"
    NODE = "node"


@dataclass(frozen=True)
class Rejections:
    """Which filters reject which rows; unlike in a decision, every filter has seen every row.

    ``verdicts``: by plugin, on ``rows``; if there are nominated pods, a second time with these
    counted. ``unresolvable`` has shape ``(len(rows),)``: True where no deletion would help.
    """

    rows: Rows
    verdicts: Mapping[str, Sequence[Verdicts]]

    def of(self, plugin: str) -> Bools:
        """Return for each row whether the plugin rejects it."""
        rejected = np.zeros(len(self.rows), dtype=np.bool_)
        for verdicts in self.verdicts.get(plugin, ()):
            rejected |= verdicts.bits != 0
        return rejected

    def by_none_but(self, plugins: Collection[str]) -> Bools:
        """Return for each row whether these filters, and no others, reject it."""
        passed = np.ones(len(self.rows), dtype=np.bool_)
        for plugin in self.verdicts.keys() - set(plugins):
            passed &= ~self.of(plugin)
        return passed

    @cached_property
    def unresolvable(self) -> Bools:
        """Return for each row whether a filter rejects it whichever pods are deleted."""
        never = np.zeros(len(self.rows), dtype=np.bool_)
        for verdicts in (one for several in self.verdicts.values() for one in several):
            for bit, reason in enumerate(verdicts.reasons):
                if reason.code is not Code.UNSCHEDULABLE:
                    never |= (verdicts.bits >> np.uint64(bit) & np.uint64(1)).astype(np.bool_)
        return never

    def reasons(self, plugin: str, place: int) -> frozenset[str]:
        """Return the plugin's reasons to reject the row at an index of ``rows``."""
        return frozenset(
            reason
            for verdicts in self.verdicts.get(plugin, ())
            for reason in status_of(int(verdicts.bits[place]), verdicts.reasons).reasons
        )


class Question:
    """A pending pod and a cluster in which to try changes; trials roll the changes back.

    ``asked`` is the pod as it is, ``pod`` the same without its scheduling gates. Each change to the
    pod also removes the gates.
    """

    def __init__(self, runtime: ProfileRuntime, cache: Cache, pod: PodInfo) -> None:
        self.runtime = runtime
        self.cache = cache
        self.cluster = cache.cluster
        self._classes = cache.classes.fresh()
        self.asked = pod
        self.gated = bool(pod.pod.spec.scheduling_gates)
        self.pod = self.info(_ungated(pod.pod)) if self.gated else pod
        self.state = CycleState()

    def info(self, message: v1.Pod) -> PodInfo:
        """Return a changed pod as the plugins see it."""
        return make_pod_info(message, self._classes)

    def feasible(self, pod: PodInfo) -> Rows:
        """Return the rows that a pod fits now, computed from scratch."""
        if self.runtime.gate(pod) is not None:
            return NO_ROWS
        try:
            fitting = fit(self.runtime, self.cluster, pod)
        except PluginFailure:
            return NO_ROWS
        reasons = chain.from_iterable(fitting.outcome.reasons)
        return NO_ROWS if any(r.code is Code.ERROR for r in reasons) else fitting.feasible

    @cached_property
    def rejections(self) -> Rejections | None:
        """The rows that filters reject; None if PreFilter rejects the pod or a plugin fails."""
        try:
            fitting = fit(self.runtime, self.cluster, self.pod)
        except PluginFailure:
            return None
        if not fitting.pre.status.ok:
            return None
        self.state, outcome = fitting.state, fitting.outcome
        rows, nodes = outcome.rows[outcome.plugin != EXCLUDED], self.cluster.columns
        counted, places = with_nominees(self.cluster, self.pod, rows)
        verdicts: dict[str, list[Verdicts]] = {}
        for named in self.runtime.filter:
            if named.name in self.state.skip_filter:
                continue
            of_plugin = [filter_one(named, self.state, self.pod, nodes, rows)]
            if counted is not nodes:
                of_plugin.append(filter_one(named, self.state, self.pod, counted, places))
            if any(r.code is Code.ERROR for one in of_plugin for r in one.reasons):
                return None
            verdicts[named.name] = of_plugin
        return Rejections(rows, verdicts)

    def room(self, rows: Rows) -> dict[str, Int64s]:
        """Return the free amount, by row, of "pods" and of each resource that the filters compare.

        Nominated pods are counted; below zero where a node is overcommitted.
        """
        nodes, places = with_nominees(self.cluster, self.pod, rows)
        room = {
            resource: nodes.allocatable(resource)[places] - nodes.requested(resource)[places]
            for resource in self.demand
        }
        return {**room, PODS: nodes.allowed_pod_number[places] - nodes.pod_count[places]}

    @cached_property
    def demand(self) -> dict[str, int]:
        """The pod's requests that the profile's filters compare, by resource."""
        found: dict[str, int] = {}
        for plugin in self.runtime.comparing_requests.values():
            found |= plugin.compared_requests(self.pod)
        return found

    def with_remedy(self, remedy: Remedy) -> list[str]:
        """Return the filters whose rejections this remedy may lift."""
        return [named.name for named in self.runtime.filter if remedy in named.traits.remedies]

    def pod_change(self, kind: Kind, description: str, cost: float, pod: v1.Pod) -> Change | None:
        """Return the change to this pod if the pod then fits, else None."""
        return self.change(kind, description, cost, self.feasible(self.info(pod)), pod=pod)

    def change(
        self,
        kind: Kind,
        description: str,
        cost: float,
        rows: Rows,
        *,
        pod: v1.Pod | None = None,
        pods: Iterable[PodInfo] = (),
        node: str = "",
    ) -> Change | None:
        """Return a change with which the pod fits ``rows``; None without any.

        ``pod``: what it becomes, None if it stays as it is apart from its gates; ``pods``: those
        that are deleted; ``node``: the one that is uncordoned, or copied.
        """
        if not len(rows):
            return None
        change = Change(kind=kind, description=description, cost=cost, nodes=len(rows), node=node)
        names = self.cluster.columns.names
        change.examples.extend(sorted(names[row] for row in rows.tolist())[:_EXAMPLES])
        change.pods.extend(map(reference, pods))
        if self.gated and kind is not Kind.GATES:
            whose = "its" if pod is not None else "the pod's"
            gates = "gates" if len(self.asked.pod.spec.scheduling_gates) > 1 else "gate"
            change.description += f", and remove {whose} scheduling {gates}"
        if pod is not None or self.gated:
            after = self.pod.pod if pod is None else pod
            patch = merge_patch(to_manifest(self.asked.pod), to_manifest(after))
            change.patch = yaml.safe_dump(patch, sort_keys=False)
        return change

    @cached_property
    def device_users(self) -> set[str]:
        """The uids of the consumers of allocated claims, of assumed allocations, too."""
        assumed = self.cluster.assumed("ResourceClaim").assumed()
        return {
            consumer.uid
            for claim in (*self.cluster.list("ResourceClaim"), *assumed)
            if claim.status.HasField("allocation")
            for consumer in claim.status.reserved_for
        }

    @cached_property
    def _claims_made(self) -> ClaimsMade:
        """Read once, because a question removes hundreds of pods, one after another."""
        return claims_made(self.cluster)

    @contextmanager
    def without(self, pods: Iterable[PodInfo]) -> Iterator[None]:
        """Remove pods, and free the devices that only they use, until the block ends."""
        with Trial(self.cache) as trial:
            for pod in pods:
                trial.remove(pod)
                release_claims(pod, self.cluster, trial, made=self._claims_made)
            yield


def _ungated(pod: v1.Pod) -> v1.Pod:
    copy = deepcopy(pod)
    copy.spec.ClearField("scheduling_gates")
    return copy


def honours_taints(pod: PodInfo) -> bool:
    """Whether a spread constraint counts only nodes whose taints the pod tolerates."""
    constraints = pod.cls.spec.topology_spread_constraints
    return any(constraint.node_taints_policy == "Honor" for constraint in constraints)


def best(
    candidates: Iterable[Candidate],
    tried: Callable[[Candidate], Change | None],
    most: int = MOST_TRIES,
) -> Change | None:
    """Try the first ``most`` candidates; return the cheapest change that is enough, or None.

    Of equally cheap changes it is the first one with which the pod fits most nodes.
    """
    left = iter(candidates)
    found = filter(None, map(tried, islice(left, most)))
    best = min(found, key=lambda change: (change.cost, -change.nodes), default=None)
    if best is not None:
        best.smaller_possible = next(left, None) is not None
    return best
