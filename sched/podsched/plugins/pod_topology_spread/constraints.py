"""The topology spread constraints that apply to a pod: its own, or the profile's defaults.

Rules: kube-scheduler v1.36 ``framework/plugins/podtopologyspread/common.go`` and
``framework/plugins/helper/spread.go``. The default constraints get their selector from the Services
that select the pod and from its controller (ReplicationController, ReplicaSet, StatefulSet). A pod
without any of these has no default constraints.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from podsched.api.node_labels import HOSTNAME, ZONE
from podsched.api.owners import controller_of
from podsched.api.selectors import (
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
    from_labels,
)
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.rows.queries import ContentQuery
from podsched.v1 import objects_pb2 as v1

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"

#: The kinds that the selector of default constraints depends on.
OWNER_KINDS: Final = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")


class MatchingPods(ContentQuery):
    """Counts the pods of a namespace that a selector matches.

    Terminating pods do not count, and an empty selector matches no pod. With ``on_fork``,
    terminating pods do count, and an empty selector matches all pods: so kube-scheduler counts the
    pods that a dry run adds or removes (``updateWithPod``, unlike ``countPodsMatchSelector``).
    """

    reads_requests: ClassVar[bool] = False

    __slots__ = ("namespace", "on_fork", "required_label", "selector")

    def __init__(self, namespace: str, selector: Selector, on_fork: bool = False) -> None:
        super().__init__(namespace, selector, on_fork)
        self.namespace, self.selector, self.on_fork = namespace, selector, on_fork
        self.required_label = selector.required_label

    def counts(self, pod: PodInfo) -> int:
        if pod.cls.namespace != self.namespace:
            return 0
        if not self.on_fork and (pod.terminating or self.selector.empty):
            return 0
        return int(self.selector.matches(pod.cls.labels))


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with its selector compiled; ``honor_*`` are its node inclusion policies."""

    topology_key: str
    max_skew: int
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints for one pod: Filter reads ``hard``, Score reads ``soft``.

    ``require_all``: nodes that lack one of the topology keys are not scored. It is False only for
    the system defaults. ``queries`` count the matching pods: one per hard, then one per soft
    constraint.
    """

    namespace: str
    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    require_all: bool = True
    queries: tuple[MatchingPods, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        queries = (MatchingPods(self.namespace, c.selector) for c in (*self.hard, *self.soft))
        object.__setattr__(self, "queries", tuple(queries))

    @property
    def hard_queries(self) -> tuple[MatchingPods, ...]:
        return self.queries[: len(self.hard)]

    @property
    def soft_queries(self) -> tuple[MatchingPods, ...]:
        return self.queries[len(self.hard) :]


SYSTEM_DEFAULTS: Final = (
    v1.TopologySpreadConstraint(
        topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3
    ),
    v1.TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)


class ServiceSelectors:
    """The selectors of all Services, by namespace and their first label.

    Comparing a pod with each Service of its namespace took most of the scheduler's time with 3,000
    of them.
    """

    def __init__(self) -> None:
        self._version: int | None = None
        self._by_label: dict[tuple[str, str, str], list[dict[str, str]]] = {}

    def merged(self, pod: PodInfo, cluster: ClusterView) -> dict[str, str]:
        """Return the labels of all selectors that match a pod."""
        version = cluster.version("Service")
        if version != self._version:
            self._read(cluster)
            self._version = version
        namespace, labels = pod.cls.namespace, pod.cls.labels
        merged: dict[str, str] = {}
        for key, value in labels.items():
            for wanted in self._by_label.get((namespace, key, value), ()):
                if wanted.items() <= labels.items():
                    merged |= wanted
        return merged

    def _read(self, cluster: ClusterView) -> None:
        self._by_label = {}
        for service in cluster.list("Service"):
            if wanted := dict(service.spec.selector):
                first = (service.metadata.namespace, *min(wanted.items()))
                self._by_label.setdefault(first, []).append(wanted)


@dataclass(frozen=True, slots=True)
class Defaulting:
    """The constraints of pods that have none; ``system``: they are the built-in system defaults."""

    constraints: tuple[v1.TopologySpreadConstraint, ...] = SYSTEM_DEFAULTS
    system: bool = True
    services: ServiceSelectors = field(default_factory=ServiceSelectors, compare=False)

    def versions(self, cluster: ClusterView) -> Hashable:
        """Return the versions of the objects, other than the pod, that the defaults depend on."""
        if not self.constraints:
            return ()
        return tuple([cluster.version(kind) for kind in OWNER_KINDS])

    def of(self, pod: PodInfo, cluster: ClusterView) -> Constraints:
        """Return the default constraints of a pod; none if their selector would be empty."""
        cls = pod.cls
        if not self.constraints:
            return Constraints(cls.namespace)
        selector = default_selector(pod, cluster, self.services)
        if selector.empty:
            return Constraints(cls.namespace)

        def chosen(action: str) -> tuple[Constraint, ...]:
            return tuple(
                compiled(constraint, selector)
                for constraint in self.constraints
                if constraint.when_unsatisfiable == action
            )

        return Constraints(
            cls.namespace, chosen(DO_NOT_SCHEDULE), chosen(SCHEDULE_ANYWAY), not self.system
        )


def own_constraints(pod: PodInfo) -> Constraints:
    """Return the constraints of the pod's own spec. Raises SelectorError."""
    cls = pod.cls
    hard: list[Constraint] = []
    soft: list[Constraint] = []
    for constraint in cls.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
            continue
        declared = constraint.label_selector if constraint.HasField("label_selector") else None
        selector = compile_selector(declared)
        matched = {k: cls.labels[k] for k in constraint.match_label_keys if k in cls.labels}
        if matched and selector.requirements is not None:
            # API servers from v1.34 on have added them to the selector when the pod was created.
            known = from_labels(matched).requirements or ()
            more = [item for item in selector.requirements if item not in known]
            selector = joined(from_labels(matched), more)
        into = hard if constraint.when_unsatisfiable == DO_NOT_SCHEDULE else soft
        into.append(compiled(constraint, selector))
    return Constraints(cls.namespace, tuple(hard), tuple(soft))


def compiled(constraint: v1.TopologySpreadConstraint, selector: Selector) -> Constraint:
    """Return a constraint with this selector.

    By default minDomains is 1, nodeAffinityPolicy is Honor, and nodeTaintsPolicy is Ignore.
    """
    return Constraint(
        constraint.topology_key,
        constraint.max_skew,
        selector,
        constraint.min_domains if constraint.HasField("min_domains") else 1,
        constraint.node_affinity_policy != "Ignore",
        constraint.node_taints_policy == "Honor",
    )


def joined(selector: Selector, more: Iterable[Requirement] | None) -> Selector:
    """Return the selector with more requirements."""
    if not more:
        return selector
    return Selector((*(selector.requirements or ()), *more))


def default_selector(pod: PodInfo, cluster: ClusterView, services: ServiceSelectors) -> Selector:
    """Return the merged selector of a pod's Services and controller; empty without any.

    Source: ``helper.DefaultSelector``.
    """
    namespace = pod.cls.namespace
    merged = services.merged(pod, cluster)
    owner = controller_of(pod.pod.metadata)
    if owner is None:
        return from_labels(merged)
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = cluster.get(owner.kind, namespace, owner.name)
        if controller is not None:
            merged.update(controller.spec.selector)
    elif owner.api_version == "apps/v1" and owner.kind in ("ReplicaSet", "StatefulSet"):
        controller = cluster.get(owner.kind, namespace, owner.name)
        return joined(from_labels(merged), _controller_selector(controller))
    return from_labels(merged)


def _controller_selector(
    controller: v1.ReplicaSet | v1.StatefulSet | None,
) -> tuple[Requirement, ...] | None:
    if controller is None or not controller.spec.HasField("selector"):
        return None
    try:
        return compile_selector(controller.spec.selector).requirements
    except SelectorError:
        return None
