"""Reserve, PreBind and Unreserve: allocates the claims of a pod on the node that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Final

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, ObjectPatch, PreBindPlan
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error, unresolvable
from podsched.plugins.dynamic_resources.device_filter import REASON_CANNOT_ALLOCATE
from podsched.plugins.dynamic_resources.devices import KnownDevices
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.extended_claims import (
    IN_MEMORY,
    extended_claim,
    may_need_devices,
)
from podsched.plugins.dynamic_resources.extended_reservation import (
    ExtendedReservation,
    delete,
    discard,
    reserve_extended,
)
from podsched.plugins.dynamic_resources.free_devices import FreeDevices
from podsched.plugins.dynamic_resources.node_search import Budget, NodeSearch, PodNeeds
from podsched.plugins.dynamic_resources.pod_claims import ClaimUnusableError, usable_claims
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader
from podsched.plugins.dynamic_resources.reservation import (
    DOUBT,
    Reservation,
    assume_allocation,
    check_not_lost,
    check_reachable,
    claim_patches,
    device_status,
    in_flight,
    join_allocation,
    without_consumer,
)
from podsched.v1 import objects_pb2 as v1

REASON_CLAIM_EXISTS: Final = "cannot schedule extended resource claim"

#: The number of claims that PreBind plans for between two pauses; one takes 40 µs.
_CLAIMS_PER_PAUSE: Final = 100
#: Seconds after which a doubt is over, whatever the clocks.
_HELD: Final = DOUBT + 1.0


class ClaimBinding:
    """The reservations of pods on their way to a node."""

    def __init__(
        self,
        reader: NeedsReader,
        devices: KnownDevices,
        free: FreeDevices,
        search: NodeSearch,
        now: Callable[[], float],
        *,
        timeout: float,
    ) -> None:
        """``timeout``: seconds that drivers may take to prepare devices."""
        self._reader = reader
        self._devices = devices
        self._free = free
        self._search = search
        self._now = now
        self._timeout = timeout
        #: The reservations of running binding cycles, by pod uid.
        self._reserved: dict[str, Reservation] = {}
        self._extended: dict[str, ExtendedReservation] = {}
        #: Those of ended cycles that sent a patch whose outcome is unknown, by pod uid; for
        #: extended resources, by the claim's name.
        self._in_doubt: dict[Hashable, Reservation | ExtendedReservation] = {}

    def has_extended(self, pod: PodInfo) -> bool:
        """Return whether a claim for extended resources is reserved for the pod."""
        return pod.uid in self._extended

    def reserve(self, pod: PodInfo, node_name: str, cluster: ClusterView) -> Status:
        """Allocate the pod's claims on the node and assume the allocations."""
        row = cluster.nodes.row_of(node_name)
        if row is None:
            return error(f'node "{node_name}" not found')
        if may_need_devices(pod) and self._devices.extended_claims(pod, cluster):
            return unresolvable(REASON_CLAIM_EXISTS)
        try:
            needs = self._reader.on_row(pod, cluster, row)
        except ClaimUnusableError as why:
            return unresolvable(str(why))
        node = cluster.nodes.node(row).metadata
        try:
            allocations = self._allocate(row, needs, cluster) if needs.claims else []
        except AllocationError as why:
            return error(self._search.problem(why, node))
        if allocations is None:
            return unresolvable(REASON_CANNOT_ALLOCATE)
        self._assume(pod, needs, allocations, cluster)
        return SUCCESS

    def _assume(
        self,
        pod: PodInfo,
        needs: PodNeeds,
        allocations: Sequence[v1.AllocationResult],
        cluster: ClusterView,
    ) -> None:
        """Assume that the pod's claims have these allocations."""
        names = list(needs.assumed)
        for name in needs.assumed:
            join_allocation(pod, name, cluster)
        for claim, allocation in zip(needs.claims, allocations, strict=True):
            if claim.name == IN_MEMORY:
                made_of = extended_claim(pod.cls, needs.lacking)
                self._extended[pod.uid] = reserve_extended(pod, made_of, allocation, cluster)
            else:
                assume_allocation(pod, claim.name, allocation, cluster)
                names.append(claim.name)
        if names:
            made = self._reserved[pod.uid] = Reservation(pod.namespace, pod.uid, tuple(names))
            doubt = self._in_doubt.pop(pod.uid, None)
            if doubt is not None:
                # It does not begin anew: the pod may be tried for ever without another patch.
                made.is_sent, made.dropped_at = True, doubt.dropped_at

    def _allocate(
        self, row: int, needs: PodNeeds, cluster: ClusterView
    ) -> list[v1.AllocationResult] | None:
        """Return the allocations of the claims on a node, or None. Raises AllocationError."""
        found = self._free.allocate(needs.claims, needs.devices, cluster.nodes, row)
        if found is not None:
            return [found]
        node = cluster.nodes.node(row).metadata
        return self._search.allocate(node, needs, Budget(self._search.most_pauses))

    def unreserve(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> None:
        """Withdraw the assumptions, unless they may be written, and the pod's reservations."""
        extended = self._extended.pop(pod.uid, None)
        if extended is not None and not extended.drop(cluster, self._now()):
            self._in_doubt[extended.name] = extended
            state.held_for = _HELD
        if extended is not None and extended.is_planned:
            delete(state, *extended.name)
        else:
            discard(state, self._devices.extended_claims(pod, cluster))
        reserved = self._reserved.pop(pod.uid, None)
        if reserved is not None and not reserved.drop(cluster, self._now()):
            self._in_doubt[pod.uid] = reserved
            state.held_for = _HELD
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

    def drop_doubts(self, cluster: ClusterView) -> None:
        """Free devices of patches with unknown outcome that the informer has not shown in time.

        Not in a trial: its rollback would assume them again, and nothing would free them then.
        """
        if cluster.open_trial is not None:
            return
        for key, reserved in list(self._in_doubt.items()):
            if reserved.drop(cluster, self._now()):
                del self._in_doubt[key]

    def plans(
        self, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> Iterator[PreBindPlan | None]:
        """Yield None for each pause, then the plan."""
        reserved = self._reserved.get(pod.uid)
        creates: tuple[v1.ResourceClaim, ...] = ()
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
            extended = self._extended.get(pod.uid)
            if extended is not None:
                creates, of_extended = extended.writes(pod, in_use, self._now())
                patches += of_extended
                now_or_soon.append(extended.assumed)
        except (ClaimUnusableError, LookupError) as why:
            yield PreBindPlan(error(str(why)))
            return
        if reserved is not None:
            reserved.is_sent, reserved.dropped_at = True, 0.0
        waits = (
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node_name}",
        )
        yield PreBindPlan(
            creates=creates,
            created=None if extended is None else extended.created,
            patches=tuple(patches),
            wait=partial(self._prepared, pod, reserved, extended),
            timeout=0.0 if self._is_late(now_or_soon) else self._timeout,
            plans_again=True,
            timed_out=partial(self._reader.failures.note_late, claims, cluster),
            waits=waits if device_status(now_or_soon).code is Code.PENDING else None,
        )

    def _prepared(
        self,
        pod: PodInfo,
        reserved: Reservation | None,
        extended: ExtendedReservation | None,
        cluster: ClusterView,
    ) -> Status:
        """Return whether the planned objects are written and the devices are prepared."""
        if reserved is not None:
            reserved.is_written = True
        try:
            claims = usable_claims(pod, cluster)
        except ClaimUnusableError as why:
            return error(str(why))
        mine = [in_flight(claim, cluster) or claim for claim in claims]
        if extended is not None:
            seen, found = extended.seen(cluster)
            if not seen.ok:
                return seen
            mine += found
        status = device_status(mine)
        if status.ok:
            self._reserved.pop(pod.uid, None)
            self._extended.pop(pod.uid, None)
        return status

    def _is_late(self, claims: Sequence[v1.ResourceClaim]) -> bool:
        """Return whether the devices were allocated longer ago than ``bindingTimeout``.

        That happens after an earlier leader has already waited for them.
        """
        since = self._now() - self._timeout
        return any(
            claim.status.allocation.HasField("allocation_timestamp")
            and claim.status.allocation.allocation_timestamp.seconds < since
            and device_status([claim]).code is Code.PENDING
            for claim in claims
        )
