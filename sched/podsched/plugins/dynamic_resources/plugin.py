"""DynamicResources: devices for the claims of a pod.

Rules: kube-scheduler v1.36 ``framework/plugins/dynamicresources``. Filter finds the nodes on which
the claims can be allocated. Reserve allocates them on the chosen node and assumes the allocations.
PreBind writes these. PostFilter deallocates a claim that no other pod uses if its devices are not
available on some nodes.

For extended resources that a DeviceClass provides and the node lacks, the pod gets a further claim
(``extended_claims``). If a claim is assumed to be allocated for one member of a PodGroup, the other
members may use it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import ClassVar, Final

import numpy as np

from podsched.api.device_claims import known_claim_names
from podsched.api.resources import requests_in_units
from podsched.config.plugin_args import DynamicResourcesArgs
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.lookahead import Lookahead
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    CycleState,
    FilterRunner,
    Handle,
    PostFilterResult,
    PreBindPlan,
    PreFilterResult,
    Remedy,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Parts, Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, unresolvable, unschedulable
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.dynamic_resources.claim_binding import ClaimBinding
from podsched.plugins.dynamic_resources.device_filter import REASON_NOT_AVAILABLE, DeviceFilter
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.events import dynamic_resources_events
from podsched.plugins.dynamic_resources.extended_claims import may_need_devices
from podsched.plugins.dynamic_resources.extended_reservation import discard
from podsched.plugins.dynamic_resources.free_devices import DevicesAhead, FreeDevices
from podsched.plugins.dynamic_resources.hindering_claims import hindering_claim
from podsched.plugins.dynamic_resources.lacking import parts_of, requirements_of
from podsched.plugins.dynamic_resources.node_search import Budget, NodeSearch, Outcome, PodNeeds
from podsched.plugins.dynamic_resources.pod_claims import (
    CLAIM,
    CLASS,
    ClaimUnusableError,
    claim_names,
    has_claims,
    usable_claims,
)
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader, needs_devices
from podsched.plugins.dynamic_resources.provided_devices import CountedDevices
from podsched.plugins.dynamic_resources.reservation import deallocation
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors, SelectorCompiler
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.normalize import default_normalize
from podsched.v1 import objects_pb2 as v1

REASON_CANNOT_FIT: Final = "cannot fit resource"

#: kube-scheduler's text if PreFilter has left no state. It ends PostFilter.
REASON_NOT_FOUND: Final = "not found"
REASON_GIVEN_BACK: Final = "waiting for devices of pods that are gone"

#: Max seconds of one Filter over all nodes, because the scheduler does nothing else meanwhile. Its
#: results are remembered, so the next attempt of the pod continues from there.
_LONGEST_FILTER: Final = 1.0
#: The allocator pauses about this often. Decisions read no clock, so they count pauses.
_PAUSES_PER_SECOND: Final = 1000


class DynamicResources:
    """Filter finds nodes with devices for the pod's claims, Reserve and PreBind allocate them."""

    name: ClassVar[str] = "DynamicResources"

    def __init__(
        self,
        args: DynamicResourcesArgs,
        handle: Handle,
        compile_selector: SelectorCompiler,
        now: Callable[[], float],
    ) -> None:
        """``now`` gives Unix time in seconds; no decision depends on it."""
        self._handle = handle
        self._preempts = args.preempt_for_devices
        #: With ``preemptForDevices``, results depend on pods that a fork removes or adds.
        self.traits = Traits(
            reads_only_nodes=not self._preempts,
            reads_pods=False,
            depends_on_feasible=False,
            reads_requests=False,
            reads_labels=False,
            projects_placed_pods=False,
            remedies=frozenset({Remedy.DEVICES, Remedy.PODS_ELSEWHERE}),
        )
        timeout = args.filter_timeout or _LONGEST_FILTER
        most_pauses = int(min(timeout, _LONGEST_FILTER) * _PAUSES_PER_SECOND)
        #: Max pauses of the searches that ``prepare`` makes in steps.
        self._most_steps = int(timeout * _PAUSES_PER_SECOND)
        self._compile_selector = RememberedSelectors(compile_selector)
        self._devices = KnownDevices(tracks_consumers=self._preempts)
        self._free = FreeDevices(self._compile_selector)
        self._search = NodeSearch(self._compile_selector, most_pauses)
        self._needs = NeedsReader(self._devices)
        self._binding = ClaimBinding(
            self._needs,
            self._devices,
            self._free,
            self._search,
            now,
            timeout=float(args.binding_timeout),
        )
        self._filter = DeviceFilter(
            handle,
            self._needs,
            self._search,
            self._binding.has_extended,
            preempts=self._preempts,
        )
        self.provided_devices = CountedDevices(self._devices, self._needs, self._compile_selector)

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return a function that tells whether another pod names one of the pod's claims."""
        mine = {ref.resource_claim_name for ref in pod.cls.spec.resource_claims} - {""}
        return lambda other: (
            other.namespace == pod.namespace
            and any(ref.resource_claim_name in mine for ref in other.cls.spec.resource_claims)
        )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return self._needs.projection(pod, cluster)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        if not needs_devices(pod):
            return FIXED_INPUTS
        if not self._needs.is_concerned(pod, cluster):
            return cluster.version(CLASS)
        self._binding.drop_doubts(cluster)
        # Claims for extended resources also depend on the nodes' allocatable.
        of_nodes = cluster.nodes.nodes_version if may_need_devices(pod) else 0
        # A search that ran out of time is no result: the next attempt has to continue it.
        return self.provided_devices.devices_version(cluster), of_nodes, self._search.unfinished

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject the pod while a claim does not exist or is not usable for it."""
        if not has_claims(pod):
            return SUCCESS
        # Here and in ``prepare``, because pods are decided in trials.
        self._binding.drop_doubts(self._handle.cluster)
        try:
            usable_claims(pod, self._handle.cluster)
        except ClaimUnusableError as why:
            return unresolvable(str(why))
        return SUCCESS

    def prepare(
        self, pod: PodInfo, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Read slices, evaluate selectors and search devices in steps, so that Filter is short.

        From the first call on, decisions do nothing of this that takes long. If slow selectors are
        left to evaluate, the attempt fails, and the next call of ``prepare`` evaluates them.
        """
        if not self._needs.is_concerned(pod, cluster):
            return
        self._binding.drop_doubts(cluster)
        self._compile_selector.holds_back = True
        self._filter.shorten()
        yield from self._devices.prepare(cluster)
        try:
            needs = self._needs.by_row(pod, cluster)
        except ClaimUnusableError:
            return
        for variant, mine in needs.by_variant(np.arange(cluster.nodes.size)):
            if variant.claims:
                yield from self._prepare(variant, mine, cluster, is_late)
        yield from self.provided_devices.prepare(pod, cluster)

    def _prepare(
        self, needs: PodNeeds, mine: Bools, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Prepare for one variant of the needs; ``mine``: the mask of its rows."""
        began = self._devices.of(cluster)
        for count, job in enumerate(self._free.prepare(needs.claims, began, is_late)):
            yield job
            # Slices and classes may have changed meanwhile.
            yield from self._devices.prepare(cluster)
            if count > self._most_steps or self._devices.of(cluster) is not began:
                return
        fitting = self._free.fitting(needs.claims, began, cluster.nodes)
        unsure = cluster.nodes.alive if fitting is None else fitting.unsure
        if unsure.any():
            known = min(len(mine), len(unsure))  # Rows may have been added meanwhile.
            rows = np.flatnonzero(unsure[:known] & mine[:known])
            yield from self._search.prepare(needs, cluster.nodes, rows, self._most_steps)

    # ------------------------------------------------------------------ deciding

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods without claims; an unusable claim makes the pod unresolvable."""
        # The state may be that of an earlier PreFilter, when the class had claims to allocate.
        state.data.pop(self.name, None)
        if not self._needs.is_concerned(pod, cluster):
            return PreFilterResult(SKIP)
        try:
            needs = self._needs.by_row(pod, cluster)
        except ClaimUnusableError as why:
            return PreFilterResult(unresolvable(str(why)))
        state.data[self.name] = needs.with_fitting(self._free, cluster.nodes)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that cannot use the allocated devices, or have no devices to allocate.

        Rejections are unresolvable. But with ``preemptForDevices``, preemption may help on nodes
        without free devices.
        """
        needs: PodNeeds = state.data[self.name]
        # PreFilter may have been before a trial, whose devices in use it would then find.
        self._devices.in_use(self._handle.cluster)
        verdicts = Verdicter(len(rows))
        # Arrays over rows, such as ``needs.variant``, have cells for the rows of the cluster.
        base = rows_of_base(nodes, rows)
        if needs.variant is not None:
            unfit = needs.variant[base] < 0
            verdicts.flag(unfit, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_CANNOT_FIT)
        for variant, mine in needs.by_variant(base):
            self._filter.flag(variant, mine, nodes, rows, verdicts)
        return verdicts.done()

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return the number of devices that each request wants, and the numbers of the rows."""
        needs: PodNeeds = state.data[self.name]
        cluster = self._handle.cluster
        return list(requirements_of(needs, nodes, rows, self._compile_selector, cluster))

    def parts(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, row: int
    ) -> Sequence[Parts]:
        """Return why requests cannot get each device of a node."""
        needs: PodNeeds | None = state.data.get(self.name)
        if needs is None:
            return ()
        return parts_of(needs, nodes, row, self._compile_selector, self._handle.cluster)

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult:
        """Deallocate a claim that no other pod uses and whose devices are not available.

        Deletes claims of earlier attempts for extended resources, too.
        """
        needs: PodNeeds | None = state.data.get(self.name)
        if needs is None:
            # Another plugin may have rejected the pod before PreFilter came to this one.
            rejected = runner.outcome.excluded.plugin == self.name
            if not rejected and self.name not in state.skip_filter:
                return PostFilterResult(unresolvable(REASON_NOT_FOUND))
            return PostFilterResult(unschedulable("no new claims to deallocate"))
        not_available = [
            runner.outcome.rows[group.places]
            for group in runner.outcome.groups
            if group.status.plugin == self.name and REASON_NOT_AVAILABLE in group.status.reasons
        ]
        rows = np.concatenate([np.zeros(0, dtype=np.intp), *not_available])
        claim = hindering_claim(pod, cluster, rows, self._needs.failures)
        if claim is not None:
            state.patches += (deallocation(claim),)
            self._needs.failures.note_deallocation(claim)
            return PostFilterResult(unschedulable("deallocation of ResourceClaim completed"))
        if discard(state, self._devices.extended_claims(pod, cluster)):
            return PostFilterResult(unschedulable("deletion of ResourceClaim completed"))
        if self._preempts and self._filter.waits_for_devices(pod, cluster, needs):
            return PostFilterResult(unresolvable(REASON_GIVEN_BACK))
        return PostFilterResult(unschedulable("still not schedulable"))

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Skip pods whose requests have no alternatives: all nodes would score the same."""
        needs: PodNeeds | None = state.data.get(self.name)
        return SUCCESS if needs is not None and needs.has_alternatives else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Score nodes higher where earlier alternatives of requests are allocated."""
        needs: PodNeeds = state.data[self.name]
        base = rows_of_base(nodes, rows)
        budget = Budget(self._search.most_pauses)
        scores = np.zeros(len(rows), dtype=np.int64)
        for variant, mine in needs.by_variant(base):
            known = self._search.outcomes(variant, nodes)
            for index in np.flatnonzero(mine & (known[base] == Outcome.UNKNOWN)).tolist():
                node = nodes.node(int(rows[index])).metadata
                known[base[index]] = self._search.find(node, variant, budget)
            scores[mine] = np.maximum(known[base][mine], 0)
        return scores

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return default_normalize(scores)

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead that counts devices, if columns have the numbers of free devices.

        All nodes must have the same needs (variant).
        """
        needs: PodNeeds | None = state.data.get(self.name)
        if needs is not None and needs.variant is not None:
            variants = list(needs.by_variant(np.flatnonzero(cluster.nodes.alive)))
            needs = variants[0][0] if len(variants) == 1 and variants[0][1].all() else None
        if needs is None:
            return None
        fitting = needs.fitting
        if fitting is None or fitting.left is None or not (fitting.fits & ~fitting.unsure).any():
            return None
        return DevicesAhead(fitting, needs.count)

    def counts_copies(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> bool:
        """Return whether columns have the number of free devices of every node."""
        needs: PodNeeds | None = state.data.get(self.name)
        if needs is None or needs.variant is not None or needs.fitting is None:
            return False
        return needs.fitting.left is not None and not needs.fitting.unsure[nodes.alive].any()

    def independent(self, pods: Sequence[PodInfo]) -> int:
        """Return how many of the first pods share no claim with each other."""
        names: set[str | None] = set()
        for count, pod in enumerate(pods):
            mine = claim_names(pod)
            if not names.isdisjoint(mine):
                return count
            names.update(mine)
        return len(pods)

    # ------------------------------------------------------------------ binding

    def reserves(self, state: CycleState, pod: PodInfo) -> bool:
        """Return whether the pod has claims to allocate."""
        needs: PodNeeds | None = state.data.get(self.name)
        return needs is not None and any(each.claims for each in (needs, *needs.variants))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Allocate the pod's claims on the node and assume the allocations."""
        cluster = self._handle.cluster
        if not self._needs.is_concerned(pod, cluster):
            return SUCCESS
        return self._binding.reserve(pod, node_name, cluster)

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Withdraw the assumptions, unless they may be written, and the pod's reservations."""
        if needs_devices(pod):
            self._binding.unreserve(state, pod, self._handle.cluster)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if has_claims(pod) or self._binding.has_extended(pod) else SKIP

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan:
        """Return a plan: write allocations and reservations, and wait for the devices."""
        steps = self._binding.plans(pod, node_name, cluster)
        plan = next(steps)
        return PreBindPlan(steps=steps) if plan is None else plan

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return dynamic_resources_events(self._gave_back)

    def _gave_back(self, gone: v1.Pod) -> bool:
        """Return whether devices may have been reserved for a pod that no stored claim shows."""
        cluster, namespace = self._handle.cluster, gone.metadata.namespace
        claims = (cluster.get(CLAIM, namespace, name) for name in known_claim_names(gone))
        if any(claim is not None and not claim.status.HasField("allocation") for claim in claims):
            return True
        provided = self._needs.resource_classes(cluster)
        # Its status may still name the claim of an earlier attempt, which is gone.
        extended = gone.status.extended_resource_claim_status.resource_claim_name
        if not provided or cluster.get(CLAIM, namespace, extended) is not None:
            return False
        return not provided.keys().isdisjoint(requests_in_units(gone))
