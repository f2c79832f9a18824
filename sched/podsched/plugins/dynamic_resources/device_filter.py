"""Rejects nodes on which a pod's claims cannot be allocated, or that cannot use its devices.

With ``preemptForDevices`` a fork's removed and added pods count: a dry run of preemption frees the
devices of its victims, and nominated pods get devices first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, cast

import numpy as np

from podsched.framework.nodes import Bools, ClusterView, ForkedColumns, NodeColumns
from podsched.framework.plugin import Handle
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicter
from podsched.plugins.dynamic_resources.changed_pods import Changed, changed, without_users
from podsched.plugins.dynamic_resources.errors import (
    AllocationAborted,
    AllocationError,
    InvalidPools,
)
from podsched.plugins.dynamic_resources.extended_claims import IN_MEMORY
from podsched.plugins.dynamic_resources.model import ResourceClaim
from podsched.plugins.dynamic_resources.node_search import Budget, NodeSearch, Outcome, PodNeeds
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, ClaimUnusableError
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.matching import match_terms

REASON_CANNOT_ALLOCATE: Final = "cannot allocate all claims"
REASON_NOT_AVAILABLE: Final = "resourceclaim not available on the node"

#: Max pauses of one Filter after ``prepare`` was called, which has searched before.
_SHORT: Final = 10


class DeviceFilter:
    """Filter of one variant of a pod's needs."""

    def __init__(
        self,
        handle: Handle,
        reader: NeedsReader,
        search: NodeSearch,
        has_extended: Callable[[PodInfo], bool],
        *,
        preempts: bool,
    ) -> None:
        """``preempts``: whether preemption may free devices.

        ``has_extended``: whether a claim for extended resources is reserved for a pod.
        """
        self._handle = handle
        self._reader = reader
        self._search = search
        self._has_extended = has_extended
        self._most_pauses = search.most_pauses
        self._preempts = preempts

    def shorten(self) -> None:
        """From now on search little in a call, because ``prepare`` searches before it."""
        self._most_pauses = min(self._most_pauses, _SHORT)

    def flag(
        self, needs: PodNeeds, mine: Bools, nodes: NodeColumns, rows: Rows, verdicts: Verdicter
    ) -> None:
        """Apply Filter to the rows of one variant; ``mine``: the mask of its rows."""
        elsewhere = np.full(len(rows), needs.binding_failed, dtype=np.bool_)
        for terms in needs.allocated:
            elsewhere |= ~match_terms(terms, nodes, rows)
        elsewhere &= mine
        # As in Kubernetes: where claims cannot be allocated, it does not help to move others there.
        if needs.claims:
            elsewhere &= ~self._cannot_allocate(needs, mine, nodes, rows, verdicts)
        verdicts.flag(elsewhere, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_NOT_AVAILABLE)

    def _cannot_allocate(
        self, needs: PodNeeds, mine: Bools, nodes: NodeColumns, rows: Rows, verdicts: Verdicter
    ) -> Bools:
        """Reject the rows in ``mine`` on which claims cannot be allocated; return their mask."""
        base = rows_of_base(nodes, rows)
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
        found[list(changes)] = Outcome.UNKNOWN
        budget = Budget(self._most_pauses)
        for index in np.flatnonzero(unsure & (found == Outcome.UNKNOWN)).tolist():
            node = nodes.node(int(rows[index])).metadata
            try:
                if index in changes:
                    found[index] = self._search.find(node, needs, budget, changes[index])
                else:
                    found[index] = known[base[index]] = self._search.find(node, needs, budget)
            except AllocationError as why:
                # An error on one node fails the whole attempt, so the other nodes are not searched.
                if not isinstance(why, AllocationAborted):
                    self._reader.failures.note_specs(needs.specs)
                failed[index:] = mine[index:]
                verdicts.flag(failed, Code.ERROR, self._search.problem(why, node))
                break
        invalid = unsure & (found == Outcome.INVALID)
        none |= unsure & (found == Outcome.NONE)
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
        """Return the claims of a pod on a node that are not allocated, nor assumed to be.

        Return no claims if one of them is unusable.
        """
        try:
            claims = self._reader.on_row(pod, self._handle.cluster, row).claims
        except ClaimUnusableError:
            return []
        found = [claim for claim in claims if claim.name != IN_MEMORY]
        if len(found) < len(claims) and not self._has_extended(pod):
            # Several pods may have one, so the names must differ.
            found.append(replace(claims[-1], name=f"{IN_MEMORY} of {pod.name}"))
        return found

    def waits_for_devices(self, pod: PodInfo, cluster: ClusterView, needs: PodNeeds) -> bool:
        """Return whether devices of deleted and terminating pods suffice on the nominated node.

        Then no further pod must be evicted.
        """
        name = cluster.nominator.node_of(pod.uid) or pod.nominated_node_name
        row = cluster.nodes.row_of(name) if name else None
        needs = needs if row is None else needs.on(row)
        if row is None or not needs.claims:
            return False
        node, devices = cluster.nodes.node(row).metadata, needs.devices
        keys = devices.in_use.claims_in(devices.pools_for(node))
        claims = [claim for key in keys if (claim := cluster.get(CLAIM, *key)) is not None]
        left = Changed(without_users(claims, cluster), ())
        if not left:
            return False
        try:
            return self._search.find(node, needs, Budget(self._most_pauses), left) >= 0
        except AllocationError:
            return False
