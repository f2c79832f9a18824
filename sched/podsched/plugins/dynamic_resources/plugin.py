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

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final, cast

import numpy as np

from podsched.api.device_claims import is_of_group
from podsched.api.extended_resources import classes_by_resource
from podsched.api.node_selectors import NodeTerms, compile_node_selector
from podsched.config.plugin_args import DynamicResourcesArgs
from podsched.framework.events import ClusterEventWithHint
from podsched.framework.lookahead import Lookahead
from podsched.framework.nodes import (
    Bools,
    ClusterView,
    ForkedColumns,
    Int64s,
    NodeColumns,
)
from podsched.framework.plugin import (
    FIXED_INPUTS,
    NOTHING_READ,
    CycleState,
    FilterRunner,
    Handle,
    ObjectPatch,
    PostFilterResult,
    PreBindPlan,
    PreFilterResult,
    Remedy,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Parts, Requirement
from podsched.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.changed_pods import (
    Changed,
    changed,
    unallocated_claims,
    without_users,
)
from podsched.plugins.dynamic_resources.device_counts import DeviceCounts
from podsched.plugins.dynamic_resources.devices import (
    DEVICE_KINDS,
    Devices,
    KnownClaims,
    KnownDevices,
)
from podsched.plugins.dynamic_resources.errors import (
    AllocationAborted,
    AllocationError,
    InvalidPools,
)
from podsched.plugins.dynamic_resources.events import dynamic_resources_events
from podsched.plugins.dynamic_resources.extended_claims import (
    IN_MEMORY,
    Provided,
    extended_claim,
    may_need_devices,
    provided,
)
from podsched.plugins.dynamic_resources.extended_needs import lacking_on, needs_by_row, needs_on
from podsched.plugins.dynamic_resources.extended_reservation import ExtendedReservations
from podsched.plugins.dynamic_resources.free_devices import DevicesAhead
from podsched.plugins.dynamic_resources.lacking import parts_of, requirements_of
from podsched.plugins.dynamic_resources.model import (
    AllocationResult,
    Features,
    Node,
    ResourceClaim,
)
from podsched.plugins.dynamic_resources.node_search import (
    Budget,
    NodeSearch,
    Outcomes,
    PodNeeds,
    node_of,
)
from podsched.plugins.dynamic_resources.pod_claims import (
    CLAIM,
    CLASS,
    ClaimUnusableError,
    claim_names,
    has_claims,
    usable_claims,
)
from podsched.plugins.dynamic_resources.remembered import RememberedSelectors
from podsched.plugins.dynamic_resources.reservation import (
    Reservation,
    assume_allocation,
    check_not_lost,
    check_reachable,
    claim_patches,
    deallocation,
    device_status,
    in_flight,
    join_allocation,
    without_consumer,
)
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.matching import match_terms
from podsched.plugins.rows.normalize import default_normalize
from podsched.v1 import objects_pb2 as v1

REASON_CANNOT_ALLOCATE: Final = "cannot allocate all claims"
REASON_NOT_AVAILABLE: Final = "resourceclaim not available on the node"
REASON_CANNOT_FIT: Final = "cannot fit resource"
REASON_CLAIM_EXISTS: Final = "cannot schedule extended resource claim"

REASON_GIVEN_BACK: Final = "waiting for devices of pods that are gone"

#: Max seconds of one Filter over all nodes, because the scheduler does nothing else meanwhile. Its
#: results are remembered, so the next attempt of the pod continues from there.
_LONGEST_FILTER: Final = 1.0
#: The allocator pauses about this often. Decisions read no clock, so they count pauses.
_PAUSES_PER_SECOND: Final = 1000
#: Max pauses of one Filter after ``prepare`` was called, which has searched before.
_SHORT_FILTER: Final = 10


#: The number of claims that PreBind plans for between two pauses; one takes 40 µs.
_CLAIMS_PER_PAUSE: Final = 100
#: Max failing specs of claims that are remembered.
_MOST_FAILING: Final = 4096


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
        self._now = now
        self._preempts = args.preempt_for_devices
        #: With ``preemptForDevices``, results depend on pods that a fork removes or adds.
        self.traits = Traits(
            reads_only_nodes=not self._preempts,
            reads_pods=False,
            depends_on_feasible=False,
            reads_requests=False,
            reads_labels=False,
            projects_placed_pods=False,
            remedies=frozenset({Remedy.DEVICES}),
        )
        timeout = args.filter_timeout or _LONGEST_FILTER
        self._most_pauses = int(min(timeout, _LONGEST_FILTER) * _PAUSES_PER_SECOND)
        self._most_in_filter = self._most_pauses
        #: Max pauses of the searches that ``prepare`` makes in steps.
        self._most_steps = int(timeout * _PAUSES_PER_SECOND)
        self._binding_timeout = float(args.binding_timeout)
        self._compile_selector = RememberedSelectors(compile_selector)
        self._devices = KnownDevices(self._compile_selector, tracks_consumers=self._preempts)
        self._claims = KnownClaims()
        self._search = NodeSearch(self._compile_selector)
        #: Serialized specs of claims that made an attempt fail. The error names the claim, so pods
        #: whose claims differ only in the name do not share an evaluation then.
        self._failing: set[bytes] = set()
        #: By pod uid: reservations of running binding cycles, and of ended ones that sent a patch
        #: whose outcome is unknown.
        self._reserved: dict[str, Reservation] = {}
        self._in_doubt: dict[str, Reservation] = {}
        self._extended = ExtendedReservations(self._devices)
        self._counts = DeviceCounts(self._compile_selector)
        self._counted: set[str] = set()
        #: The last result of ``resource_classes``, with the version and the cluster.
        self._classes: tuple[int, ClusterView, Mapping[str, str]] | None = None
        #: The number of Filters that ran out of time. It is one of the inputs, so that their
        #: results are not reused.
        self._unfinished = 0
        #: The allocations whose binding conditions did not become true in time.
        self._timed_out: set[Hashable] = set()

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the specs of the claims to allocate, and the nodes of the allocated ones.

        So pods whose claims have equal specs share an evaluation.
        """
        if not _needs_devices(pod):
            return NOTHING_READ
        try:
            claims = usable_claims(pod, cluster)
            parts = tuple([self._part(pod, claim, cluster) for claim in claims])
        except ClaimUnusableError:
            return pod.uid
        extended = self._provided(pod, cluster)
        if not extended:
            return parts
        spec = extended_claim(pod.cls, extended).kind
        namespace = pod.namespace if spec in self._failing else ""
        return parts, extended, spec, namespace

    def _part(self, pod: PodInfo, claim: v1.ResourceClaim, cluster: ClusterView) -> Hashable:
        """Return the part of the projection for one claim. Raises ClaimUnusableError."""
        assumed = _assumed_for(pod, claim, cluster)
        known = claim if assumed is None else assumed
        if known.status.HasField("allocation"):
            where = known.status.allocation.node_selector
            failed = self._has_failed(known)
            return assumed is None, failed, where.SerializeToString(deterministic=True)
        spec = self._claims.spec(claim)
        return (spec, claim.metadata.name) if spec in self._failing else spec

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        if not _needs_devices(pod):
            return FIXED_INPUTS
        if not self._is_concerned(pod, cluster):
            return cluster.version(CLASS)
        self._drop_doubts()
        nodes = cluster.nodes
        versions = (cluster.version(kind) for kind in DEVICE_KINDS)
        assumed = cluster.assumed(CLAIM).version
        # Claims for extended resources also depend on the nodes' allocatable.
        of_nodes = nodes.nodes_version if may_need_devices(pod) else nodes.topology_version
        return (assumed, *versions, of_nodes, nodes.size, self._unfinished)

    def resource_classes(self, cluster: ClusterView) -> Mapping[str, str]:
        """Return the DeviceClass that provides each extended resource, by the resource's name."""
        version = cluster.version(CLASS)
        if self._classes is None or self._classes[:2] != (version, cluster):
            self._classes = version, cluster, classes_by_resource(cluster.list(CLASS))
        return self._classes[2]

    def count_ahead(self, resources: Collection[str]) -> None:
        """Note the resources whose devices count in scores."""
        self._counted.update(resources)

    def device_counts(self, resource: str, cluster: ClusterView) -> Int64s | None:
        """Return the devices of a resource's class, and those in use; shape ``(2, size)``."""
        name = self.resource_classes(cluster).get(resource)
        if name is None:
            return None
        return self._counts.of(name, self._devices.of(cluster), cluster.nodes)

    def devices_version(self, cluster: ClusterView) -> Hashable:
        """Return the versions of everything that ``device_counts`` reads."""
        nodes = cluster.nodes
        versions = (cluster.version(kind) for kind in DEVICE_KINDS)
        return (cluster.assumed(CLAIM).version, *versions, nodes.topology_version, nodes.size)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject the pod while a claim does not exist or is not usable for it."""
        if not has_claims(pod):
            return SUCCESS
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
        if not self._is_concerned(pod, cluster):
            return
        self._compile_selector.holds_back = True
        self._most_in_filter = min(self._most_in_filter, _SHORT_FILTER)
        yield from self._devices.prepare(cluster)
        try:
            needs = self._needs_by_row(pod, cluster)
        except ClaimUnusableError:
            return
        for variant, mine in needs.by_variant(np.arange(cluster.nodes.size)):
            if variant.claims:
                yield from self._prepare(variant, mine, cluster, is_late)
        yield from self._count_devices(pod, cluster)

    def _count_devices(self, pod: PodInfo, cluster: ClusterView) -> Iterator[None]:
        """Count the devices that the scores of other plugins will read."""
        for resource, device_class in self._provided(pod, cluster):
            devices = self._devices.of(cluster)
            if resource in self._counted and device_class in devices.classes:
                yield from self._counts.prepare(device_class, devices, cluster.nodes)

    def _prepare(
        self, needs: PodNeeds, mine: Bools, cluster: ClusterView, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Prepare for one variant of the needs; ``mine``: the mask of its rows."""
        began = self._devices.of(cluster)
        free = self._devices.free(cluster)
        jobs = free.prepare(needs.claims, self._compile_selector, is_late)
        for count, job in enumerate(jobs):
            yield job
            # Slices and classes may have changed meanwhile.
            yield from self._devices.prepare(cluster)
            if count > self._most_steps or self._devices.of(cluster) is not began:
                return
        fitting = self._devices.free(cluster).fitting(needs.claims, cluster.nodes)
        unsure = cluster.nodes.alive if fitting is None else fitting.unsure
        if unsure.any():
            known = min(len(mine), len(unsure))  # Rows may have been added meanwhile.
            rows = np.flatnonzero(unsure[:known] & mine[:known])
            yield from self._search.prepare(needs, cluster.nodes, rows, self._most_steps)

    # ------------------------------------------------------------------ deciding

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods without claims; an unusable claim makes the pod unresolvable."""
        if not self._is_concerned(pod, cluster):
            state.data.pop(self.name, None)
            return PreFilterResult(SKIP)
        try:
            needs = self._needs_by_row(pod, cluster)
        except ClaimUnusableError as why:
            return PreFilterResult(unresolvable(str(why)))
        variants = tuple(self._with_fitting(variant, cluster) for variant in needs.variants)
        state.data[self.name] = replace(self._with_fitting(needs, cluster), variants=variants)
        return PreFilterResult()

    def _with_fitting(self, needs: PodNeeds, cluster: ClusterView) -> PodNeeds:
        fitting = self._devices.free(cluster).fitting(needs.claims, cluster.nodes)
        return replace(needs, fitting=fitting)

    def _needs_by_row(self, pod: PodInfo, cluster: ClusterView) -> PodNeeds:
        """Return the pod's current needs with their variants. Raises ClaimUnusableError."""
        return needs_by_row(
            self._needs(pod, cluster), pod, self._provided(pod, cluster), cluster.nodes
        )

    def _provided(self, pod: PodInfo, cluster: ClusterView) -> tuple[Provided, ...]:
        """Return the requested resources that devices can provide."""
        if not may_need_devices(pod):
            return ()
        return provided(pod, self.resource_classes(cluster))

    def _is_concerned(self, pod: PodInfo, cluster: ClusterView) -> bool:
        """Return whether the pod has claims, or may get one for extended resources."""
        return has_claims(pod) or bool(self._provided(pod, cluster))

    def _needs(self, pod: PodInfo, cluster: ClusterView) -> PodNeeds:
        """Return the current needs of the pod's claims. Raises ClaimUnusableError."""
        allocated: list[NodeTerms] = []
        assumed_names: list[str] = []
        binding_failed = False
        new: list[v1.ResourceClaim] = []
        for claim in usable_claims(pod, cluster):
            assumed = _assumed_for(pod, claim, cluster)
            if assumed is not None:
                assumed_names.append(claim.metadata.name)
                claim = assumed
            if not claim.status.HasField("allocation"):
                new.append(claim)
                continue
            binding_failed |= self._has_failed(claim)
            if claim.status.allocation.HasField("node_selector"):
                allocated.append(compile_node_selector(claim.status.allocation.node_selector))
        devices = self._devices.of(cluster)
        claims = tuple(map(self._claims.read, new))
        for wanted in claims:
            _check_classes(wanted, devices)
        return PodNeeds(
            tuple(allocated),
            tuple(claim.metadata.name for claim in new),
            claims,
            tuple(map(self._claims.spec, new)),
            tuple(assumed_names),
            devices,
            binding_failed=binding_failed,
        )

    def _has_failed(self, claim: v1.ResourceClaim) -> bool:
        """Return whether preparing a device of the claim failed, or took too long."""
        status = device_status([claim])
        late = status.code is Code.PENDING and _allocation_key(claim) in self._timed_out
        return late or status.code is Code.ERROR

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that cannot use the allocated devices, or have no devices to allocate.

        Rejections are unresolvable. But with ``preemptForDevices``, preemption may help on nodes
        without free devices.
        """
        needs: PodNeeds = state.data[self.name]
        verdicts = Verdicter(len(rows))
        # Arrays over rows, such as ``needs.variant``, have cells for the rows of the cluster.
        base = rows_of_base(nodes, rows)
        if needs.variant is not None:
            unfit = needs.variant[base] < 0
            verdicts.flag(unfit, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_CANNOT_FIT)
        for variant, mine in needs.by_variant(base):
            self._filter(variant, mine, nodes, rows, base, verdicts)
        return verdicts.done()

    def _filter(
        self,
        needs: PodNeeds,
        mine: Bools,
        nodes: NodeColumns,
        rows: Rows,
        base: Rows,
        verdicts: Verdicter,
    ) -> None:
        """Apply Filter to the rows in the mask ``mine``, with these needs."""
        elsewhere = np.full(len(rows), needs.binding_failed, dtype=np.bool_)
        for terms in needs.allocated:
            elsewhere |= ~match_terms(terms, nodes, rows)
        elsewhere &= mine
        # As in Kubernetes: where claims cannot be allocated, it does not help to move others there.
        if needs.claims:
            elsewhere &= ~self._cannot_allocate(needs, mine, nodes, rows, base, verdicts)
        verdicts.flag(elsewhere, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_NOT_AVAILABLE)

    def _cannot_allocate(
        self,
        needs: PodNeeds,
        mine: Bools,
        nodes: NodeColumns,
        rows: Rows,
        base: Rows,
        verdicts: Verdicter,
    ) -> Bools:
        """Reject the rows in ``mine`` on which claims cannot be allocated; return their mask."""
        unresolvably = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        unsure = mine.copy()
        none = np.zeros_like(mine)
        failed = np.zeros_like(mine)
        if needs.fitting is not None:
            none |= mine & ~needs.fitting.fits[base]
            if nodes.base is not nodes and needs.fitting.left is not None:
                taken = cast(ForkedColumns, nodes).copies()[rows] * needs.count
                none |= mine & (needs.fitting.left[base] < taken)
            unsure &= needs.fitting.unsure[base] & ~none
        known = self._search.outcomes(needs, nodes)
        found = known[base]
        changes = self._changes(needs, nodes, np.flatnonzero(mine), rows)
        none[list(changes)] = False
        unsure[list(changes)] = True
        found[list(changes)] = Outcomes.UNKNOWN
        budget = Budget(self._most_in_filter)
        for index in np.flatnonzero(unsure & (found == Outcomes.UNKNOWN)).tolist():
            node = node_of(nodes, int(rows[index]))
            try:
                if index in changes:
                    found[index] = self._search.find_after(node, needs, changes[index], budget)
                else:
                    found[index] = known[base[index]] = self._search.find(node, needs, budget)
            except AllocationError as why:
                # An error on one node fails the whole attempt, so the other nodes are not searched.
                if len(self._failing) >= _MOST_FAILING:
                    self._failing.clear()
                if not isinstance(why, AllocationAborted):
                    self._failing.update(needs.kind)
                failed[index:] = mine[index:]
                verdicts.flag(failed, Code.ERROR, self._problem(why, node))
                break
        invalid = unsure & (found == Outcomes.INVALID)
        none |= unsure & (found == Outcomes.NONE)
        verdicts.flag(invalid, unresolvably, str(InvalidPools()))
        may_change = Code.UNSCHEDULABLE if self._preempts else unresolvably
        verdicts.flag(none, may_change, REASON_CANNOT_ALLOCATE)
        rejected: Bools = none | invalid | failed
        return rejected

    def _changes(
        self, needs: PodNeeds, nodes: NodeColumns, places: Rows, rows: Rows
    ) -> dict[int, Changed]:
        """Return the effects of removed and added pods by position in ``rows``; only real ones.

        ``places``: the positions in ``rows`` to look at.
        """
        if not self._preempts or nodes.base is nodes:
            return {}
        in_use = needs.devices.in_use
        found = {
            place: changed(
                nodes, row, in_use, partial(self._unallocated, int(nodes.base_rows[row]))
            )
            for place, row in zip(places.tolist(), rows[places].tolist(), strict=True)
        }
        return {place: changes for place, changes in found.items() if changes}

    def _unallocated(self, row: int, pod: PodInfo) -> list[ResourceClaim]:
        """Return the claims of a pod on a node that are not allocated, nor assumed to be."""
        cluster = self._handle.cluster
        found = list(map(self._claims.read, unallocated_claims(pod, cluster)))
        lacking = lacking_on(self._provided(pod, cluster), cluster.nodes, row)
        if lacking and not self._extended.has(pod):
            wanted = extended_claim(pod.cls, lacking).for_pod(pod)
            found.append(replace(wanted, name=f"{IN_MEMORY} of {pod.name}"))
        return found

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
        needs = state.data.get(self.name)
        if not isinstance(needs, PodNeeds):
            return ()
        return parts_of(needs, nodes, row, self._compile_selector, self._handle.cluster)

    def post_filter(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, runner: FilterRunner
    ) -> PostFilterResult:
        """Deallocate a claim that no other pod uses and whose devices are not available.

        Deletes claims of earlier attempts for extended resources, too.
        """
        if not isinstance(state.data.get(self.name), PodNeeds):
            return PostFilterResult(unschedulable("no new claims to deallocate"))
        not_available = [
            runner.outcome.rows[group.places]
            for group in runner.outcome.groups
            if group.status.plugin == self.name and REASON_NOT_AVAILABLE in group.status.reasons
        ]
        rows = np.concatenate([np.zeros(0, dtype=np.intp), *not_available])
        for claim in usable_claims(pod, cluster):
            if not claim.status.HasField("allocation") or not _is_idle(claim, pod, cluster):
                continue
            if self._hinders(claim, cluster.nodes, rows):
                state.patches += (deallocation(claim),)
                self._timed_out.discard(_allocation_key(claim))
                return PostFilterResult(unschedulable("deallocation of ResourceClaim completed"))
        if self._extended.discard(state, pod, cluster):
            return PostFilterResult(unschedulable("deletion of ResourceClaim completed"))
        if self._preempts and self._waits_for_devices(pod, cluster, state.data[self.name]):
            return PostFilterResult(unresolvable(REASON_GIVEN_BACK))
        return PostFilterResult(unschedulable("still not schedulable"))

    def _waits_for_devices(self, pod: PodInfo, cluster: ClusterView, needs: PodNeeds) -> bool:
        """Return whether devices of deleted and terminating pods suffice on the nominated node.

        Then no further pod must be evicted.
        """
        name = cluster.nominated_node(pod.uid) or pod.nominated_node_name
        row = cluster.nodes.row_of(name) if name else None
        needs = needs if row is None else needs.on(row)
        if row is None or not needs.claims:
            return False
        node, devices = node_of(cluster.nodes, row), needs.devices
        keys = devices.in_use.claims_in(devices.pools_for(node))
        claims = [claim for key in keys if (claim := cluster.get(CLAIM, *key)) is not None]
        left = Changed(without_users(claims, cluster), ())
        if not left:
            return False
        try:
            return self._search.find_after(node, needs, left, Budget(self._most_in_filter)) >= 0
        except AllocationError:
            return False

    def _hinders(self, claim: v1.ResourceClaim, nodes: NodeColumns, rows: Rows) -> bool:
        """Return whether Filter rejected some of the rows because of the claim."""
        if not len(rows) or self._has_failed(claim):
            return bool(len(rows))
        if not claim.status.allocation.HasField("node_selector"):
            return False
        terms = compile_node_selector(claim.status.allocation.node_selector)
        return not match_terms(terms, nodes, rows).all()

    def _problem(self, why: AllocationError, node: Node) -> str:
        if not isinstance(why, AllocationAborted):
            return str(why)
        self._unfinished += 1
        return f"node {node.name}: timed out trying to allocate devices"

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Skip pods whose requests have no alternatives: all nodes would score the same."""
        needs = state.data.get(self.name)
        has_alternatives = isinstance(needs, PodNeeds) and needs.has_alternatives
        return SUCCESS if has_alternatives else SKIP

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Score nodes higher where earlier alternatives of requests are allocated."""
        needs: PodNeeds = state.data[self.name]
        base = rows_of_base(nodes, rows)
        budget = Budget(self._most_pauses)
        scores = np.zeros(len(rows), dtype=np.int64)
        for variant, mine in needs.by_variant(base):
            known = self._search.outcomes(variant, nodes)
            for index in np.flatnonzero(mine & (known[base] == Outcomes.UNKNOWN)).tolist():
                node = node_of(nodes, int(rows[index]))
                known[base[index]] = self._search.find(node, variant, budget)
            scores[mine] = np.maximum(known[base][mine], 0)
        return scores

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return default_normalize(scores)

    def look_ahead(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> Lookahead | None:
        """Return a Lookahead that counts devices, if columns have the numbers of free devices.

        All nodes must have the same needs (variant).
        """
        needs = state.data.get(self.name)
        if isinstance(needs, PodNeeds) and needs.variant is not None:
            variants = list(needs.by_variant(np.flatnonzero(cluster.nodes.alive)))
            needs = variants[0][0] if len(variants) == 1 and variants[0][1].all() else None
        if not isinstance(needs, PodNeeds):
            return None
        fitting = needs.fitting
        if fitting is None or fitting.left is None or not (fitting.fits & ~fitting.unsure).any():
            return None
        return DevicesAhead(fitting, needs.count)

    def counts_copies(self, state: CycleState, pod: PodInfo, nodes: NodeColumns) -> bool:
        """Return whether columns have the number of free devices of every node."""
        needs = state.data.get(self.name)
        if not isinstance(needs, PodNeeds) or needs.variant is not None or needs.fitting is None:
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
        needs = state.data.get(self.name)
        return isinstance(needs, PodNeeds) and any(each.claims for each in (needs, *needs.variants))

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Allocate the pod's claims on the node and assume the allocations."""
        cluster = self._handle.cluster
        if not self._is_concerned(pod, cluster):
            return SUCCESS
        row = cluster.nodes.row_of(node_name)
        if row is None:
            return error(f'node "{node_name}" not found')
        if may_need_devices(pod) and self._devices.extended_claims(pod, cluster):
            return unresolvable(REASON_CLAIM_EXISTS)
        try:
            needs = self._needs(pod, cluster)
        except ClaimUnusableError as why:
            return unresolvable(str(why))
        needs = needs_on(needs, pod, self._provided(pod, cluster), cluster.nodes, row)
        node = node_of(cluster.nodes, row)
        try:
            allocations = self._allocate(node, needs) if needs.claims else []
        except AllocationError as why:
            return error(self._problem(why, node))
        if allocations is None:
            return unresolvable(REASON_CANNOT_ALLOCATE)
        self._assume(pod, needs, allocations)
        return SUCCESS

    def _assume(
        self, pod: PodInfo, needs: PodNeeds, allocations: Sequence[AllocationResult]
    ) -> None:
        """Assume that the pod's claims have these allocations."""
        cluster = self._handle.cluster
        names = list(needs.assumed)
        for name in needs.assumed:
            join_allocation(pod, name, cluster)
        for name, allocation in zip(needs.names, allocations, strict=True):
            if name == IN_MEMORY:
                made_of = extended_claim(pod.cls, needs.lacking)
                self._extended.reserve(pod, made_of, allocation, cluster)
            else:
                assume_allocation(pod, name, allocation, cluster)
                names.append(name)
        if names:
            is_sent = self._in_doubt.pop(pod.uid, None) is not None
            self._reserved[pod.uid] = Reservation(
                pod.namespace, pod.uid, tuple(names), is_sent=is_sent
            )

    def _allocate(self, node: Node, needs: PodNeeds) -> list[AllocationResult] | None:
        """Return the allocations of the claims on a node, or None. Raises AllocationError."""
        found = self._devices.free(self._handle.cluster).allocate(needs.claims, node, Features())
        if found is not None:
            return [found]
        return self._search.allocate(node, needs, Budget(self._most_pauses))

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Withdraw the assumptions, unless they may be written, and the pod's reservations."""
        if not _needs_devices(pod):
            return
        cluster = self._handle.cluster
        self._extended.unreserve(state, pod, cluster, self._now())
        reserved = self._reserved.pop(pod.uid, None)
        if reserved is not None and not reserved.drop(cluster, self._now()):
            self._in_doubt[pod.uid] = reserved
        known: v1.Pod | None = cluster.get("Pod", pod.namespace, pod.name)
        if known is None or known.metadata.uid != pod.uid or pod.terminating:
            # The claim controller removes the reservation of a deleted pod and, with the last one,
            # the allocation.
            return
        try:
            claims = usable_claims(pod, cluster)
        except ClaimUnusableError:
            return
        for claim in claims:
            consumers = {consumer.uid for consumer in claim.status.reserved_for}
            # Reservations for a PodGroup stay, because other members may use the claim.
            if claim.status.HasField("allocation") and pod.uid in consumers:
                state.patches += (without_consumer(claim, pod),)

    def _drop_doubts(self) -> None:
        """Free devices of patches with unknown outcome that the informer has not shown in time."""
        for uid, reserved in list(self._in_doubt.items()):
            if reserved.drop(self._handle.cluster, self._now()):
                del self._in_doubt[uid]
        self._extended.drop_doubts(self._handle.cluster, self._now())

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if has_claims(pod) or self._extended.has(pod) else SKIP

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan:
        """Return a plan: write allocations and reservations, and wait for the devices."""
        steps = self._plans(pod, node_name, cluster)
        plan = next(steps)
        return PreBindPlan(steps=steps) if plan is None else plan

    def _plans(
        self, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> Iterator[PreBindPlan | None]:
        """Yield None for each pause, then the plan."""
        reserved = self._reserved.get(pod.uid)
        patches: list[ObjectPatch] = []
        now_or_soon: list[v1.ResourceClaim] = []
        try:
            yield from self._devices.read_claims(cluster)
            in_use = self._devices.in_use(cluster)
            claims = usable_claims(pod, cluster)
            for first in range(0, len(claims), _CLAIMS_PER_PAUSE):
                if first:
                    yield None
                some = claims[first : first + _CLAIMS_PER_PAUSE]
                check_not_lost(some, reserved, in_use, cluster)
                check_reachable(some, node_name, cluster)
                patches += claim_patches(pod, some, cluster, self._now())
                now_or_soon += [in_flight(claim, cluster) or claim for claim in some]
            creates, of_extended = self._extended.writes(pod, cluster, self._now())
        except (ClaimUnusableError, LookupError) as why:
            yield PreBindPlan(error(str(why)))
            return
        if reserved is not None:
            reserved.is_sent = True
        for_device = device_status([*now_or_soon, *self._extended.assumed(pod)])
        waits = (
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node_name}",
        )
        yield PreBindPlan(
            creates=creates,
            created=partial(self._extended.created, pod),
            patches=(*patches, *of_extended),
            wait=partial(self._prepared, pod, reserved),
            timeout=0.0 if self._is_late(now_or_soon) else self._binding_timeout,
            plans_again=True,
            timed_out=partial(self._note_late, claims),
            waits=waits if for_device.code is Code.PENDING else None,
        )

    def _prepared(self, pod: PodInfo, reserved: Reservation | None, cluster: ClusterView) -> Status:
        """Return whether the planned objects are written and the devices are prepared."""
        if reserved is not None:
            reserved.is_written = True
        try:
            claims = usable_claims(pod, cluster)
        except ClaimUnusableError as why:
            return error(str(why))
        seen, extended = self._extended.seen(pod, cluster)
        if not seen.ok:
            return seen
        mine = [in_flight(claim, cluster) or claim for claim in claims]
        status = device_status([*mine, *extended])
        if status.ok:
            self._reserved.pop(pod.uid, None)
            self._extended.bound(pod)
        return status

    def _is_late(self, claims: Sequence[v1.ResourceClaim]) -> bool:
        """Return whether the devices were allocated longer ago than ``bindingTimeout``.

        That happens after an earlier leader has already waited for them.
        """
        since = self._now() - self._binding_timeout
        return any(
            claim.status.allocation.HasField("allocation_timestamp")
            and claim.status.allocation.allocation_timestamp.seconds < since
            and device_status([claim]).code is Code.PENDING
            for claim in claims
        )

    def _note_late(self, claims: Sequence[v1.ResourceClaim]) -> None:
        """Note the allocations whose devices were not prepared in time."""
        for claim in claims:
            meta = claim.metadata
            found = self._handle.cluster.get(CLAIM, meta.namespace, meta.name)
            if found is not None and device_status([found]).code is Code.PENDING:
                self._timed_out.add(_allocation_key(found))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return dynamic_resources_events()


def _needs_devices(pod: PodInfo) -> bool:
    """Return whether the pod has claims, or requests resources that devices may provide."""
    return has_claims(pod) or may_need_devices(pod)


def _assumed_for(
    pod: PodInfo, claim: v1.ResourceClaim, cluster: ClusterView
) -> v1.ResourceClaim | None:
    """Return the claim with the allocation that is assumed for the pod or its PodGroup, or None.

    Raises ClaimUnusableError if the allocation is assumed for another pod.
    """
    assumed = in_flight(claim, cluster)
    if assumed is not None and not _is_for(pod, assumed, cluster):
        raise ClaimUnusableError(
            f"resource claim {claim.metadata.namespace}/{claim.metadata.name} "
            "is in the process of being allocated"
        )
    return assumed


def _is_for(pod: PodInfo, assumed: v1.ResourceClaim, cluster: ClusterView) -> bool:
    """Return whether an assumed claim is for the pod or another member of its group."""
    consumers = {consumer.uid for consumer in assumed.status.reserved_for}
    return pod.uid in consumers or bool(consumers & _members(pod, cluster))


def _members(pod: PodInfo, cluster: ClusterView) -> set[str]:
    """Return the uids of the members of the pod's PodGroup; without one, the pod's own."""
    return {pod.uid, *(other.uid for other in (cluster.members(pod.group) if pod.group else ()))}


def _is_idle(claim: v1.ResourceClaim, pod: PodInfo, cluster: ClusterView) -> bool:
    """Return whether a claim is reserved only for the pod and waiting members of its PodGroup."""
    members = _members(pod, cluster)
    others: set[str] = set()
    for consumer in claim.status.reserved_for:
        others |= members if is_of_group(pod.pod, consumer) else {consumer.uid}
    others.discard(pod.uid)
    if not others or not others <= members:
        return not others
    nodes = cluster.nodes
    used = np.flatnonzero(nodes.alive & (nodes.pod_count > 0)).tolist()
    return all(others.isdisjoint(nodes.pods(row)) for row in used)


def _allocation_key(claim: v1.ResourceClaim) -> Hashable:
    """Return a key that differs for each allocation of each claim."""
    return claim.metadata.uid, claim.status.allocation.SerializeToString(deterministic=True)


def _check_classes(claim: ResourceClaim, devices: Devices) -> None:
    """Raise ClaimUnusableError if a request names a class that does not exist."""
    for request in claim.requests:
        wanted = {f"{request.name}/{exactly.name}": exactly for exactly in request.first_available}
        for name, exactly in (wanted or {request.name: request.exactly}).items():
            if exactly.device_class_name not in devices.classes:
                text = f"request {name}: device class {exactly.device_class_name} does not exist"
                raise ClaimUnusableError(text)
