"""The contract of plugins: the extension points, in the order of the two cycles.

A plugin is a class with a ``name`` that implements some of these protocols; one registry lists
the classes and one runtime calls them. Everything here is synchronous and free of I/O: what a
plugin wants done to the cluster it returns as a value, and the engine does it.

**Rows.** ``filter`` and ``score`` get the row numbers to compute on; results are parallel to
``rows``. A result for a row may depend on: the pod's class, the state that the same plugin put
into CycleState in PreFilter or PreScore, and the row itself. What it reads of other rows or
objects it reads in ``pre_filter``/``pre_score``, and ``inputs`` names the versions of all of
that: as long as ``inputs`` stays equal, the runtime reuses the state and the results of unchanged
rows for the next pod of the same class.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol, runtime_checkable

from podsched.framework.events import ClusterEventWithHint
from podsched.framework.filter_outcome import FilterOutcome
from podsched.framework.nodes import ClusterView, JournaledColumns, NodeColumns
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores, Verdicts

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0
#: Longest time a Permit plugin may make a pod wait, in seconds.
MAX_PERMIT_TIMEOUT = 15 * 60.0


@dataclass(slots=True)
class CycleState:
    """What the plugins keep between the extension points of one pod's cycle, by plugin name.

    It is picklable (evaluator actors get it), so plugins put plain data and arrays into it.
    """

    data: dict[str, Any] = field(default_factory=dict)
    skip_filter: set[str] = field(default_factory=set)
    skip_score: set[str] = field(default_factory=set)
    #: Pods that a plugin wants tried again, by key (``PodsToActivate``). They are activated when
    #: the pod's scheduling cycle ends and again when it has been bound.
    pods_to_activate: dict[str, PodInfo] = field(default_factory=dict)


@runtime_checkable
class Plugin(Protocol):
    """What all plugins have; they may also declare ``traits`` and register events."""

    name: ClassVar[str]


class Remedy(enum.Enum):
    """What can end a rejection by a Filter plugin, beside other pods of the node that go."""

    REQUESTS = "lower requests, or less that is requested on the node"
    TAINTS = "a toleration, or a taint or cordon that goes"
    PODS_ELSEWHERE = "a pod of another node that goes"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a plugin's answers depend on, so that the engine repeats no work in vain.

    Read once, when the profile's plugins are made. The defaults promise nothing: a plugin that
    declares no traits is asked again whenever its answer might have changed.
    """

    #: The result for a row depends on its Node alone; pods that come and go there change nothing.
    reads_only_nodes: bool = False
    #: Filter or Score looks at single pods (``nodes.pods``), not only at sums and counts over them.
    #: Then what several more pods on a node would mean cannot be computed by adding copies of one.
    reads_pods: bool = True
    #: What PreScore computes depends on which rows are feasible, not on the pod alone; PreScore is
    #: repeated whenever these rows change.
    depends_on_feasible: bool = True
    #: ``normalize`` maps a score by that score, the smallest and the largest alone; it is not
    #: repeated for rows whose score did not change while these two stay the same.
    normalizes_by_extremes: bool = False
    #: ``projection`` depends on the pod's class alone, so that it is asked for once per class.
    projects_class: bool = False
    #: ``projection`` depends on what containers request or are limited to. Where it does not, it is
    #: asked for once for all pods that differ in nothing else (``PodShape``).
    reads_requests: bool = True
    #: Likewise, it depends on labels or the owner, beyond the namespace.
    reads_labels: bool = True
    #: Likewise, it depends on volumes or, for claims, on the pod's name.
    reads_volumes: bool = True
    #: ``projection`` depends on which pods there are, waiting or placed, beyond the terms that they
    #: have. Where it does not, it is kept while pods come and go.
    projects_placed_pods: bool = True
    #: Bind succeeds for every pod, so that the plugin need not be asked.
    binds_every_pod: bool = False
    #: What can end a rejection by Filter: explanations look for such changes on nodes that only
    #: plugins with the remedy reject.
    remedies: frozenset[Remedy] = frozenset()


@runtime_checkable
class ComparesRequests(Protocol):
    """A Filter plugin that compares what pods request with what nodes have left."""

    def compared_requests(self, pod: PodInfo) -> Mapping[str, int]:
        """Return the resources that it compares, with what the pod requests of each."""
        ...


@runtime_checkable
class LooksAcrossNodes(Protocol):
    """A Filter plugin whose verdict on a node depends on pods of other nodes."""

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return what tells of another pod whether the verdicts for ``pod`` may depend on it.

        It is asked once for all pods of a class.
        """
        ...


@runtime_checkable
class DeclaresTraits(Protocol):
    """Plugins that say what their results depend on."""

    traits: ClassVar[Traits]


def traits_of(plugin: object) -> Traits:
    """Return the traits that a plugin declares, else the defaults."""
    return plugin.traits if isinstance(plugin, DeclaresTraits) else Traits()


@runtime_checkable
class EnqueueExtensions(Protocol):
    """Plugins whose rejections can be lifted by events."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]: ...


@runtime_checkable
class PreEnqueuePlugin(Protocol):
    """Called before a pod enters activeQ; a rejected pod is gated."""

    def pre_enqueue(self, pod: PodInfo) -> Status: ...


@runtime_checkable
class QueueSortPlugin(Protocol):
    """Orders activeQ: the smallest key is scheduled first."""

    def sort_key(self, pod: QueuedPodInfo) -> tuple[Any, ...]: ...


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """``node_names``: the only nodes worth looking at; None for all."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None


#: What ``inputs`` returns where nothing beyond the rows is read for pods of the class, now or ever:
#: the plugin is not asked again.
FIXED_INPUTS: Final = "fixed"


@runtime_checkable
class InputsPlugin(Protocol):
    """Plugins that read more than the pod and the row."""

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of all that the plugin reads beyond the rows themselves.

        FIXED_INPUTS, if that is nothing.
        """
        ...


#: What ``projection`` returns where pods that are equal in what the plugin reads (``Traits``) have
#: nothing for it to look at, now or ever: it is not asked about such pods again.
NOTHING_READ: Final = "nothing read"


@runtime_checkable
class ProjectingPlugin(Protocol):
    """Plugins that say what of a pod they read, so that pods that differ elsewhere share answers.

    A plugin without a projection is taken to read the whole pod.
    """

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return all that PreFilter, Filter, PreScore, Score and Reserve make of the pod.

        Pods with equal projections get equal answers while ``inputs`` stay equal, on forks too,
        and change the answers to each other equally when they are placed. Labels count as far as
        selectors that exist see them, claims as what they are bound to. Cheap: it is asked for
        whenever the pod is decided on, unless it was NOTHING_READ.
        """
        ...


@runtime_checkable
class PreFilterPlugin(InputsPlugin, Protocol):
    """Computes once per class what Filter needs; Skip switches Filter off for this pod.

    Such a plugin names its inputs, those of its Score included.
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
    """Filters that are faster over whole columns than over rows picked out of them."""

    def filter_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Verdicts:
        """Return what ``filter`` says of all rows, shape ``(size,)``; anything without a node."""
        ...


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods to evict from a node, most important first, and how many of them a budget protects."""

    pods: tuple[PodInfo, ...]
    num_pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """The node to nominate ("" clears, None leaves as it is) and the victims to evict there."""

    status: Status
    nominated_node_name: str | None = None
    victims: Victims | None = None


@runtime_checkable
class PostFilterPlugin(Protocol):
    """Called when no node fits; ``runner`` runs the profile's filters on rows and forks.

    One that preempts may also implement the protocols of ``podsched.framework.preemption``.
    """

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult: ...


@runtime_checkable
class PreScorePlugin(Protocol):
    """Computes what Score needs from the feasible rows; Skip switches the plugin's Score off."""

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status: ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores rows from 0 to 100; without ``ScoreExtensions`` these scores are final."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores: ...


@runtime_checkable
class WholeScorePlugin(ScorePlugin, Protocol):
    """Scores that are faster over whole columns than over rows picked out of them."""

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Return what ``score`` says of all rows, shape ``(size,)``; anything without a node."""
        ...


class GroupScores(NamedTuple):
    """Raw scores of groups of rows, as of topology domains.

    ``scores`` has one for each group, ``groups`` each row's group, shape ``(size,)``.
    """

    scores: Scores
    groups: Rows


@runtime_checkable
class GroupScorePlugin(ScorePlugin, Protocol):
    """Scores that whole groups of rows share.

    ``normalize`` then gets one score of each group that has a feasible row: what it makes of a
    score must not depend on how many rows have it.
    """

    def score_groups(self, state: CycleState, pod: PodInfo) -> GroupScores | None:
        """Return what ``score`` says of all rows, after PreScore; None: rows have their own."""
        ...


@runtime_checkable
class ScoreExtensions(Protocol):
    """Score plugins whose raw scores are of another scale than 0 to 100."""

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the raw scores of all feasible rows to 0..100, from these scores alone."""
        ...


@runtime_checkable
class ReservePlugin(Protocol):
    """Notified when a pod is assumed on a node and, in reverse order, when binding fails."""

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status: ...
    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


@runtime_checkable
class ReservesSomePods(ReservePlugin, Protocol):
    """Reserve plugins that have nothing to do for most pods."""

    def reserves(self, state: CycleState, pod: PodInfo) -> bool:
        """Return whether ``reserve`` changes anything for pods of this projection."""
        ...


@dataclass(frozen=True, slots=True)
class PermitResult:
    """Success, a rejection, or WAIT with the seconds to wait at most."""

    status: Status = SUCCESS
    timeout: float = 0.0


@runtime_checkable
class PermitPlugin(Protocol):
    """Approve a pod that has been assumed, reject it or let it wait."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult: ...


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """A JSON merge patch that PreBind wants written; any version if ``resource_version`` is ""."""

    kind: str
    namespace: str
    name: str
    merge_patch: Mapping[str, Any]
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class PreBindPlan:
    """What has to happen before the pod may be bound.

    ``patches`` are written first. Then ``wait`` (if any) is asked, on every change of the
    cluster, until it returns something else than PENDING, for ``timeout`` seconds at most.
    """

    status: Status = SUCCESS
    patches: tuple[ObjectPatch, ...] = ()
    wait: Callable[[ClusterView], Status] | None = None
    timeout: float = 0.0


@runtime_checkable
class PreBindPlugin(Protocol):
    """Prepare what a pod needs before it is bound, such as its volumes."""

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Return SKIP when ``pre_bind`` would do nothing for this pod; must be cheap."""
        ...

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan: ...


@runtime_checkable
class BindPlugin(Protocol):
    """Takes a pod that is ready to be bound, or leaves it to the next Bind plugin.

    Like all plugins it does no I/O: the engine calls the API's Bind for a pod that it took. The
    plugins are asked in the profile's order. SKIP hands the pod on to the next one, SUCCESS ends
    the asking. Any other status means that the pod is not bound: it is unreserved and goes back
    to the queue, unschedulable for a rejection, with error backoff for an error. So it does when
    all plugins skip it. Pods that some other program binds are for an extender with a bind verb,
    which is asked before the plugins.
    """

    def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status: ...


@runtime_checkable
class PostBindPlugin(Protocol):
    """Hear of pods that have been bound."""

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None: ...


class FilterRunner(Protocol):
    """The profile's filters, for PostFilter plugins: the outcome so far, and runs on forks."""

    @property
    def outcome(self) -> FilterOutcome: ...
    @property
    def inputs(self) -> Hashable | None:
        """Versions of all that the filters read beyond the rows; None: not known.

        While they and a row stay equal, so do the outcomes on the row and on forks of it, for all
        pods of the class.
        """
        ...

    def status(self, index: int) -> Status:
        """Return the Status of the row at position ``index`` of ``outcome.rows``."""
        ...

    def run_filters(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> FilterOutcome:
        """Filter with nominated pods, in two passes (``RunFilterPluginsWithNominatedPods``)."""
        ...


class PluginError(ValueError):
    """A plugin cannot be used: its package or the configuration that names it is at fault.

    Raised before anything is scheduled; the message is one line for the person who installed it.
    """


#: Called with the plugin's arguments and the handle; a plugin's class, mostly.
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
        ...

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of the plugin; it goes on when all have."""
        ...

    def reject(self, plugin: str, why: str) -> None:
        """Reject the pod on behalf of the plugin."""
        ...


class Handle(Protocol):
    """What a plugin may use at any time: the cluster, random numbers, the waiting pods."""

    @property
    def cluster(self) -> ClusterView: ...

    def random(self) -> float:
        """Return a number in [0, 1) from the profile's seeded source."""
        ...

    def waiting_pods(self) -> Iterable[WaitingPod]:
        """Return all pods waiting at Permit, of all profiles."""
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        """Return one of them; None when it is not waiting."""
        ...

    def reject_waiting_pod(self, uid: str) -> bool:
        """Reject a waiting pod; return False when it is not waiting."""
        ...


class NoWaitingPods:
    """The part of a Handle about waiting pods where no pod ever waits: simulations, shards."""

    def waiting_pods(self) -> Iterable[WaitingPod]:
        return ()

    def waiting_pod(self, uid: str) -> WaitingPod | None:
        return None

    def reject_waiting_pod(self, uid: str) -> bool:
        return False
