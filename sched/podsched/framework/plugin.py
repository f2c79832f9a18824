"""The contract of plugins: the extension points, in the order of the two cycles.

A plugin is a class with a ``name`` that implements some of these protocols. One registry lists the
classes and one runtime calls them. Everything here is synchronous and free of I/O: a plugin returns
changes to the cluster as values, and the scheduler makes them.

**Rows.** ``filter`` and ``score`` get the row numbers to compute on; element ``i`` of a result is
for row ``rows[i]``. It may depend on the pod's class, on the state that the same plugin put into
CycleState in PreFilter or PreScore, and on the row itself. A plugin may read other rows and objects
only in ``pre_filter`` and ``pre_score``, and ``inputs`` returns the versions of everything read
there. While ``inputs`` stays equal, the runtime reuses the state and the results of unchanged rows
for the next pod of the same class.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from podsched.framework.events import ClusterEventWithHint
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.nodes import ClusterView, Int64s, JournaledColumns, NodeColumns
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores, Verdicts

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0
#: Longest time a Permit plugin may make a pod wait, in seconds (kube-scheduler's ``maxTimeout``).
MAX_PERMIT_TIMEOUT = 15 * 60.0


@dataclass(slots=True)
class CycleState:
    """Data that plugins keep between the extension points of one pod's cycle, by plugin name.

    It is pickled for evaluator actors, so it may contain only plain data and arrays. All fields but
    ``data`` are immutable and get replaced (``state.patches += (patch,)``): with a container of its
    own for each of the five, deciding for a pod took 3 % longer.
    """

    data: dict[str, Any] = field(default_factory=dict)
    skip_filter: frozenset[str] = frozenset()
    skip_score: frozenset[str] = frozenset()
    #: Pods to activate when the cycle ends, and again when the pod is bound (``PodsToActivate``).
    pods_to_activate: tuple[PodInfo, ...] = ()
    #: Patches that PostFilter and Unreserve request, and objects to delete after them. The
    #: scheduler sends them once, after the call, and does not wait for the outcome.
    patches: tuple[ObjectPatch, ...] = ()
    deletions: tuple[ObjectDeletion, ...] = ()
    #: Seconds after which something is free that Unreserve could not give back at once. The pods
    #: that lack it are woken then.
    held_for: float = 0.0

    def copy(self) -> CycleState:
        """Return a copy of the data and skips, to which the data of one pod may be added."""
        return CycleState(self.data.copy(), self.skip_filter, self.skip_score)


@runtime_checkable
class Plugin(Protocol):
    """The base of all plugins; a plugin may also declare ``traits`` and register events."""

    name: ClassVar[str]


class Remedy(enum.Enum):
    """A change that can end a rejection by Filter; the removal of pods is tried on a fork."""

    REQUESTS = "lower requests, or less that is requested on the node"
    TAINTS = "a toleration, or a taint or cordon that goes"
    PODS_ELSEWHERE = "a pod of another node that goes"
    DEVICES = "less that is asked of devices, or a device that is given back"


@dataclass(frozen=True, slots=True)
class Traits:
    """The data that a plugin's results depend on, so that the scheduler avoids needless calls.

    Traits are read once, when the profile's plugins are created. The defaults promise nothing: a
    plugin without traits is called again whenever its result might have changed.
    """

    #: The result for a row depends only on its Node; pods that come and go do not change it.
    reads_only_nodes: bool = False
    #: Filter or Score reads single pods (``nodes.pods``), not only sums and counts over pods. Then
    #: look-ahead is impossible, because it adds copies of one pod to the sums and counts.
    reads_pods: bool = True
    #: The result of PreScore depends on which rows are feasible; PreScore runs again whenever these
    #: rows change.
    depends_on_feasible: bool = True
    #: Whether PreScore skips depends only on the pod's class, not on which rows are feasible.
    skips_by_class: bool = False
    #: ``normalize`` maps a score using only that score, the smallest and the largest. While these
    #: two stay the same, it does not run again for rows whose score did not change.
    normalizes_by_extremes: bool = False
    #: ``projection`` reads only the class, not the cluster, so it is computed once per class.
    projects_class: bool = False
    #: ``projection`` depends on the containers' requests or limits. If it does not, it is computed
    #: once for all pods that differ only there (``PodShape``).
    reads_requests: bool = True
    #: As ``reads_requests``, for labels and the owner (the namespace does not count).
    reads_labels: bool = True
    #: As ``reads_requests``, for volumes and, with claims, the pod's name.
    reads_volumes: bool = True
    #: ``projection`` depends on the existing pods, pending or placed, not only on their affinity
    #: terms. If it does not, it stays valid while pods come and go.
    projects_placed_pods: bool = True
    #: Bind succeeds for every pod, so the plugin need not be called.
    binds_every_pod: bool = False
    #: Errors count as kube-scheduler's errors of the stages of volume scheduling.
    binds_volumes: bool = False
    #: PreFilter allows only the nodes of ``ClusterView.placement``. Every profile has the plugin,
    #: and cannot disable its PreFilter.
    keeps_to_placement: bool = False
    #: The changes that can end a rejection by Filter. Explanations look for such changes on nodes
    #: that only plugins with the remedy reject.
    remedies: frozenset[Remedy] = frozenset()

    @classmethod
    def of_spec(cls, **more: Any) -> Traits:
        """Return those of a plugin that reads only a pod's spec, without resources and volumes."""
        return cls(
            reads_pods=False,
            projects_class=True,
            reads_requests=False,
            reads_labels=False,
            reads_volumes=False,
            **more,
        )


@runtime_checkable
class ComparesRequests(Protocol):
    """A Filter plugin that compares the requests of pods with the free resources of nodes."""

    def compared_requests(self, pod: PodInfo) -> Mapping[str, int]:
        """Return the compared resources, with the pod's request for each."""


class ProvidedDevices(Protocol):
    """The devices that a plugin can allocate for extended resources."""

    def resource_classes(self, cluster: ClusterView) -> Mapping[str, str]:
        """Return the DeviceClass that provides each resource, by the resource's name."""

    def count_ahead(self, resources: Collection[str]) -> None:
        """Prepare ``device_counts`` for these resources."""

    def device_counts(self, resource: str, cluster: ClusterView) -> Int64s | None:
        """Return each row's devices, and those in use, shape ``(2, size)``; None: not provided."""

    def devices_version(self, cluster: ClusterView) -> Hashable:
        """Return a value that changes whenever a result of ``device_counts`` does."""


@runtime_checkable
class ProvidesDevices(Protocol):
    """A plugin that allocates devices: for claims, and for extended resources that nodes lack."""

    provided_devices: ProvidedDevices


@runtime_checkable
class LeavesDevices(Protocol):
    """A plugin that leaves extended resources to the profile's ``ProvidesDevices``, if any."""

    def leave_to(self, devices: ProvidedDevices) -> None:
        """Leave them to ``devices``; called once, after the profile's plugins were created."""


@runtime_checkable
class LooksAcrossNodes(Protocol):
    """A Filter plugin whose verdict on a node depends on pods of other nodes."""

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return a function: whether the verdicts for ``pod`` may depend on another pod.

        The function is called once per class.
        """


@runtime_checkable
class DeclaresTraits(Protocol):
    """Plugins that declare what their results depend on."""

    traits: ClassVar[Traits]


def traits_of(plugin: object) -> Traits:
    """Return the traits that a plugin declares, else the defaults."""
    return plugin.traits if isinstance(plugin, DeclaresTraits) else Traits()


@runtime_checkable
class EnqueueExtensions(Protocol):
    """A plugin that registers the events that can make the pods fit which it rejected."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Called before a pod enters activeQ; a rejected pod is gated."""

    def pre_enqueue(self, pod: PodInfo) -> Status: ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Orders activeQ; all profiles have the same one."""

    def sort_key(self, pod: QueuedPodInfo) -> tuple[Any, ...]:
        """Return the pod's key; the smallest key is scheduled first.

        It is computed when the pod enters a queue or changes, so it must not depend on the time.
        """


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """The result of PreFilter. ``node_names``: the only nodes to filter; None for all."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None


#: Returned by ``inputs`` if the plugin never reads anything beyond the rows for pods of the class;
#: then ``inputs`` is not called again.
FIXED_INPUTS: Final = "fixed"


@runtime_checkable
class InputsPlugin(Protocol):
    """A plugin that declares what its results depend on beyond the pod and the row."""

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of everything that the plugin reads beyond the rows.

        Return FIXED_INPUTS if it reads nothing else.
        """


#: Returned by ``projection`` if pods that are equal in the parts that the plugin reads (``Traits``)
#: never have anything for it to read; then it is not called for such pods again.
NOTHING_READ: Final = "nothing read"


@runtime_checkable
class ProjectingPlugin(Protocol):
    """A plugin that declares what it reads of a pod; pods that are equal in it share results.

    A plugin without a projection is assumed to read the whole class.
    """

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return everything that PreFilter, Filter, PreScore, Score and Reserve read of the class.

        Nothing else of a pod may matter, such as its annotations: pods of one class are not asked
        about one by one. Pods with equal projections must get equal results while ``inputs`` stay
        equal, also on forks, and must affect each other's results equally when they are placed.
        Include labels only if an existing selector matches them, and claims as the volumes that
        they are bound to. This must be cheap: it is called for every decision, unless it returned
        NOTHING_READ.
        """


@runtime_checkable
class PreparesPlugin(Protocol):
    """A plugin that needs much computation for some decisions, and can do it before, in steps."""

    def prepare(
        self, pod: PodInfo, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Compute and keep what PreFilter and Filter will need; yield about every millisecond.

        The cluster may change at a yield. None is only a pause. A function that is yielded takes
        long, so it is called in a thread, and must read nothing that changes. If ``is_late``
        returns True, other pods have waited for long: leave what is possible to the next attempt.
        """


@runtime_checkable
class PreFilterPlugin(InputsPlugin, Protocol):
    """Prepares the state for Filter, once per class; Skip disables the plugin's Filter for the pod.

    ``inputs`` must include the inputs of the plugin's Score. When they change, it is called again
    with the same state, and must replace or remove everything that it put there.
    """

    def pre_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView
    ) -> PreFilterResult: ...


@runtime_checkable
class FilterPlugin(Protocol):
    """Decides for each row whether the pod can run there."""

    def filter(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Verdicts: ...


@runtime_checkable
class WholeFilterPlugin(FilterPlugin, Protocol):
    """A Filter plugin that is faster over whole columns than over selected rows."""

    def filter_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Verdicts:
        """Filter all rows, shape ``(size,)``; results of rows without a node are ignored."""


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods to evict from a node, most important first, and how many of them a budget protects."""

    pods: tuple[PodInfo, ...]
    num_pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The result of PostFilter: the node to nominate and the victims to evict there.

    ``nominated_node_name``: "" withdraws the pod's nomination, None keeps it.
    """

    status: Status
    nominated_node_name: str | None = None
    victims: Victims | None = None


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Called if no node fits; ``runner`` runs the profile's filters on rows and forks.

    A plugin that preempts may also implement the protocols of ``podsched.framework.preemption``.
    """

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult: ...


@runtime_checkable
class PreScorePlugin(Protocol):
    """Prepares the state for Score from the feasible rows; Skip disables the plugin's Score."""

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status: ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores rows from 0 to 100; without ``ScoreExtensions`` these scores are final."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores: ...


@runtime_checkable
class WholeScorePlugin(ScorePlugin, Protocol):
    """A Score plugin that is faster over whole columns than over selected rows."""

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Score all rows, shape ``(size,)``; results of rows without a node are ignored."""


class GroupScores(NamedTuple):
    """Raw scores of groups of rows, such as topology domains.

    ``scores`` has one score per group. ``groups``, of shape ``(size,)``, has each row's group.
    """

    scores: Scores
    groups: Rows


@runtime_checkable
class GroupScorePlugin(ScorePlugin, Protocol):
    """A Score plugin that gives all rows of a group, such as a topology domain, the same score.

    ``normalize`` gets one score per group that has a feasible row, so its result must not depend
    on how many rows have the same score.
    """

    def score_groups(self, state: CycleState, pod: PodInfo) -> GroupScores | None:
        """Score all rows by group, after PreScore; return None if there are no groups."""


@runtime_checkable
class ScoreExtensions(Protocol):
    """A Score plugin whose raw scores are not on the scale 0 to 100."""

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the raw scores of all feasible rows to 0..100, using only these scores."""


@runtime_checkable
class ReservePlugin(Protocol):
    """Notified when a pod is assumed on a node and, in reverse order, when binding fails."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status: ...
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class ReservesSomePods(ReservePlugin, Protocol):
    """A Reserve plugin that has nothing to do for most pods."""

    def reserves(self, state: CycleState, pod: PodInfo) -> bool:
        """Return whether ``reserve`` changes anything for pods of this projection."""


@dataclass(frozen=True, slots=True)
class PermitResult:
    """The result of Permit: success, a rejection, or WAIT with a timeout in seconds."""

    status: Status = SUCCESS
    timeout: float = 0.0


@runtime_checkable
class PermitPlugin(Protocol):
    """Approves or rejects an assumed pod, or makes it wait."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult: ...


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """A JSON merge patch of an object.

    It is applied only to the given ``resource_version`` and ``uid``; "": to any.
    """

    kind: str
    namespace: str
    name: str
    merge_patch: Mapping[str, Any]
    resource_version: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ObjectDeletion:
    """The deletion of an object, only if it has the given ``uid``; "": any."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PreBindPlan:
    """The work that must be done before the pod is bound.

    The objects ``creates`` are stored first; then ``created`` (if any) is called, and ``patches``
    are written. Then ``wait`` (if any) is called on every change of the cluster until it returns
    something other than PENDING, for at most ``timeout`` seconds; if that time is over,
    ``timed_out`` (if any) is called. With ``plans_again``, a patch that meets a conflict makes
    PreBind plan again from the cluster's newer objects, a few times.
    """

    status: Status = SUCCESS
    creates: tuple[Any, ...] = ()
    created: Callable[[], None] | None = None
    patches: tuple[ObjectPatch, ...] = ()
    wait: Callable[[ClusterView], Status] | None = None
    timeout: float = 0.0
    plans_again: bool = False
    timed_out: Callable[[], None] | None = None
    #: Reason and message of a Normal event, if the pod has to wait.
    waits: tuple[str, str] | None = None
    #: Computes a plan that takes long: yields None for each pause, then the plan. The other fields
    #: of this object are not used then.
    steps: Iterator[PreBindPlan | None] | None = None

    def made(self) -> PreBindPlan:
        """Return the plan that ``steps`` computes, without pauses; this one without ``steps``."""
        return self if self.steps is None else next(filter(None, self.steps))


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepares the objects that a pod needs before it is bound, such as its volumes."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Return SKIP if ``pre_bind`` would do nothing for this pod; must be cheap."""

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan: ...


@runtime_checkable
class BindPlugin(Protocol):
    """Accepts a pod that is ready to be bound, or leaves it to the next Bind plugin.

    Like all plugins it does no I/O: the scheduler calls the API's Bind for an accepted pod. Plugins
    are called in the profile's order. SKIP passes the pod to the next plugin, SUCCESS accepts it.
    With any other status, or if all plugins skip it, the pod is not bound: it is unreserved and
    returns to the queue, unschedulable for a rejection, with error backoff for an error. To let
    another program bind pods, use an extender with a bind verb, which is called before the plugins.
    """

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status: ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Called after a pod was bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class FilterRunner(Protocol):
    """The profile's filters, for PostFilter plugins: the outcome so far, and runs on forks."""

    @property
    def outcome(self) -> FilterOutcome: ...
    @property
    def inputs(self) -> Hashable | None:
        """The versions of everything that the filters read beyond the rows; None: unknown.

        While these versions and a row stay equal, the outcomes on the row and on its forks stay
        equal for all pods of the class.
        """

    def status(self, index: int) -> Status:
        """Return the Status of the row at position ``index`` of ``outcome.rows``."""

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> FilterOutcome:
        """Filter with nominated pods, in two passes (``RunFilterPluginsWithNominatedPods``)."""


class PluginError(ValueError):
    """A plugin cannot be used: its package or the configuration that names it is at fault.

    Raised before anything is scheduled; the message is one line for the user who installed it.
    """


#: Called with the plugin's arguments and the handle; usually the plugin's class.
PluginFactory = Callable[[Any, "Handle"], Plugin]


class WaitingPod(Protocol):
    """A pod that Permit plugins asked to wait."""

    @property
    def pod(self) -> PodInfo: ...
    @property
    def node_name(self) -> str: ...
    @property
    def pending_plugins(self) -> Sequence[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of the plugin; it is bound when all its plugins have."""

    def reject(self, plugin: str, why: str) -> None:
        """Reject the pod on behalf of the plugin."""


class Handle(Protocol):
    """Services for plugins: the cluster, random numbers, the waiting pods."""

    @property
    def cluster(self) -> ClusterView: ...

    def random(self) -> float:
        """Return a number in [0, 1) from the profile's seeded source."""

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return all pods waiting at Permit, of all profiles."""

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return a pod that waits at Permit; None if it does not wait."""

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a waiting pod; return False when it is not waiting."""


class NoWaitingPods:
    """The methods of a Handle for waiting pods, if no pod ever waits: simulations, shards."""

    def waiting_pods(self) -> Iterable[WaitingPod]:
        return ()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        return None

    def reject_waiting_pod(self, uid: str) -> bool:
        return False
