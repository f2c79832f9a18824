"""Which volumes unbound claims would get on which nodes, and where volumes could be provisioned.

Rules: kube-scheduler v1.36 ``volumebinding/binder.go`` (FindPodVolumes) and component-helpers
``FindMatchingVolume``. What depends on the node are labels alone, so nodes are grouped by the
labels that any candidate asks about, and each group is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from podsched.api.quantity import value
from podsched.api.selectors import (
    NodeTerm,
    NodeTerms,
    Requirement,
    Selector,
    SelectorError,
    compile_node_selector,
    compile_selector,
)
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.row_matching import match_requirement
from podsched.plugins.volume_claims import (
    ANN_SELECTED_NODE,
    FILESYSTEM,
    capacity,
    claim_class,
    get_class,
    is_bound_to,
    key_of,
    requested_storage,
    volume_class,
)
from podsched.v1 import objects_pb2 as v1

NO_PROVISIONER = "kubernetes.io/no-provisioner"
CSI_DRIVER = "CSIDriver"
CSI_STORAGE_CAPACITY = "CSIStorageCapacity"

NO_VOLUME = -1


class MatchingFailed(Exception):
    """Something about a claim cannot be read; ends the pod's cycle with an error."""


def affinity_terms(affinity: v1.VolumeNodeAffinity) -> NodeTerms | None:
    """A volume's demands on its node's labels; None where it has none."""
    return compile_node_selector(affinity.required) if affinity.HasField("required") else None


def match_affinity(terms: NodeTerms | None, nodes: NodeColumns, rows: Rows) -> Bools:
    """Whether each row's node labels meet a volume's demands; a node's name is not looked at."""
    if terms is None:
        return np.ones(len(rows), dtype=np.bool_)
    result = np.zeros(len(rows), dtype=np.bool_)
    for term in terms.terms:
        result |= _match_term(term, nodes, rows)
    return result


def _match_term(term: NodeTerm, nodes: NodeColumns, rows: Rows) -> Bools:
    result = np.full(len(rows), _may_match(term))
    if result.any():
        for requirement in term.expressions:
            result &= match_requirement(requirement, nodes, rows)
    return result


def _may_match(term: NodeTerm) -> bool:
    if not term.valid or not (term.expressions or term.fields):
        return False
    # Volumes see nodes without their names: "In" fails, "NotIn" holds.
    return all(requirement.operator == "NotIn" for requirement in term.fields)


def affinity_holds(terms: NodeTerms | None, node: v1.Node) -> bool:
    """The same for one node message."""
    if terms is None:
        return True
    labels = node.metadata.labels
    return any(
        _may_match(term) and all(r.matches(labels) for r in term.expressions)
        for term in terms.terms
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A volume that suits a claim but for its node affinity."""

    name: str
    affinity: NodeTerms | None


@dataclass(frozen=True, slots=True)
class Provision:
    """Where a volume could be made for a claim.

    ``topologies`` None: anywhere. ``pools`` None: capacity is not looked at; else the nodes from
    which a pool that is large enough can be reached.
    """

    possible: bool
    topologies: tuple[tuple[Requirement, ...], ...] | None = None
    pools: tuple[Selector, ...] | None = None

    def keys(self) -> set[str]:
        """The labels it asks about."""
        terms = self.topologies or ()
        keys = {requirement.key for term in terms for requirement in term}
        for pool in self.pools or ():
            keys |= {requirement.key for requirement in pool.requirements or ()}
        return keys


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """A claim that waits for its first pod.

    With a ``selected_node`` a volume is being provisioned there. ``prebound`` is the volume bound
    to the claim beforehand, which decides alone; ``candidates`` are the others, smallest first.
    """

    key: str
    size: Fraction
    provision: Provision
    selected_node: str | None = None
    prebound: tuple[Candidate, ...] = ()
    candidates: tuple[Candidate, ...] = ()


def unbound_claim(
    claim: v1.PersistentVolumeClaim,
    volumes: Sequence[v1.PersistentVolume],
    cluster: ClusterView,
) -> UnboundClaim:
    """Reads a claim and the volumes of its class. Raises MatchingFailed, QuantityError."""
    key, size = key_of(claim), requested_storage(claim)
    provision = _provision(claim, cluster)
    annotations = claim.metadata.annotations
    if ANN_SELECTED_NODE in annotations:
        return UnboundClaim(key, size, provision, annotations[ANN_SELECTED_NODE])
    selector = _selector(claim)
    prebound, others = [], []
    for volume in volumes:
        if not _suits(volume, claim, size):
            continue
        if is_bound_to(volume, claim):
            prebound.append(volume)
        elif _is_free(volume, claim, selector):
            others.append(volume)
    others.sort(key=capacity)
    return UnboundClaim(key, size, provision, None, _candidates(prebound), _candidates(others))


def _candidates(volumes: Iterable[v1.PersistentVolume]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(volume.metadata.name, affinity_terms(volume.spec.node_affinity))
        for volume in volumes
    )


def _selector(claim: v1.PersistentVolumeClaim) -> Selector | None:
    if not claim.spec.HasField("selector"):
        return None
    try:
        return compile_selector(claim.spec.selector)
    except SelectorError as error:
        raise MatchingFailed(
            f"error creating internal label selector for claim: {key_of(claim)}: {error}"
        ) from error


def _suits(volume: v1.PersistentVolume, claim: v1.PersistentVolumeClaim, size: Fraction) -> bool:
    """What is asked even of a volume that is bound to the claim beforehand."""
    if volume.spec.HasField("claim_ref") and not is_bound_to(volume, claim):
        return False
    if (claim.spec.volume_mode or FILESYSTEM) != (volume.spec.volume_mode or FILESYSTEM):
        return False
    if claim.spec.volume_attributes_class_name != volume.spec.volume_attributes_class_name:
        return False
    return not volume.metadata.HasField("deletion_timestamp") and capacity(volume) >= size


def _is_free(
    volume: v1.PersistentVolume, claim: v1.PersistentVolumeClaim, selector: Selector | None
) -> bool:
    if volume.status.phase != "Available" or volume_class(volume) != claim_class(claim):
        return False
    if selector is not None and not selector.matches(volume.metadata.labels):
        return False
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def _provision(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> Provision:
    name = claim_class(claim)
    if not name:
        raise MatchingFailed(f'no class for claim "{key_of(claim)}"')
    storage_class = get_class(cluster, name)
    if storage_class is None:
        raise MatchingFailed(f'failed to find storage class "{name}"')
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return Provision(possible=False)
    topologies = None
    if storage_class.allowed_topologies:
        topologies = tuple(
            tuple(Requirement(e.key, "In", frozenset(e.values)) for e in t.match_label_expressions)
            for t in storage_class.allowed_topologies
            if t.match_label_expressions
        )
    return Provision(True, topologies, _pools(claim, storage_class, cluster))


def _pools(
    claim: v1.PersistentVolumeClaim, storage_class: v1.StorageClass, cluster: ClusterView
) -> tuple[Selector, ...] | None:
    """Where the driver has room for the claim; None where it does not say."""
    requests = claim.spec.resources.requests
    driver = cluster.get(CSI_DRIVER, "", storage_class.provisioner)
    if "storage" not in requests or driver is None or not driver.spec.storage_capacity:
        return None
    size = value(requests["storage"])
    found: dict[Selector, None] = {}
    for pool in cluster.list(CSI_STORAGE_CAPACITY):
        if pool.storage_class_name != storage_class.metadata.name:
            continue
        limit = volume_limit(pool)
        if limit is None or limit < size or not pool.HasField("node_topology"):
            continue
        try:
            found[compile_selector(pool.node_topology)] = None
        except SelectorError:
            continue
    return tuple(found)


def volume_limit(pool: v1.CSIStorageCapacity) -> int | None:
    """The largest volume in bytes that a pool has room for, as far as it says."""
    if pool.HasField("maximum_volume_size"):
        return value(pool.maximum_volume_size)
    return value(pool.capacity) if pool.HasField("capacity") else None


# ---------------------------------------------------------------------------------- over rows


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of the claims on each row; all arrays have the shape ``(len(rows),)``.

    ``chosen`` holds, for each claim that may get an existing volume, the index into its prebound
    volumes and candidates, or NO_VOLUME where one would have to be provisioned.
    """

    satisfied: Bools
    enough_storage: Bools
    chosen: tuple[tuple[UnboundClaim, NDArray[np.int64]], ...] = ()


def match_claims(claims: Sequence[UnboundClaim], nodes: NodeColumns, rows: Rows) -> Matching:
    """Finds volumes for the claims on each row, as FindPodVolumes does for unbound claims."""
    elsewhere = np.zeros(len(rows), dtype=np.bool_)
    for claim in claims:
        if claim.selected_node is not None:
            elsewhere |= ~_is_node(claim.selected_node, nodes, rows)
    groups, of_row = _group(_label_keys(claims), nodes, rows)
    found = _match_groups(claims, nodes, groups)
    return Matching(
        found.satisfied[of_row] & ~elsewhere,
        found.enough_storage[of_row] | elsewhere,
        tuple((claim, chosen[of_row]) for claim, chosen in found.chosen),
    )


def _is_node(name: str, nodes: NodeColumns, rows: Rows) -> Bools:
    base = nodes.base
    of_base = rows if base is nodes else nodes.base_rows[rows]
    row = base.row_of(name)
    return np.zeros(len(rows), dtype=np.bool_) if row is None else of_base == row


def _label_keys(claims: Iterable[UnboundClaim]) -> list[str]:
    keys: set[str] = set()
    for claim in claims:
        keys |= claim.provision.keys()
        for candidate in (*claim.prebound, *claim.candidates):
            if candidate.affinity is not None:
                for term in candidate.affinity.terms:
                    keys |= {requirement.key for requirement in term.expressions}
    return sorted(keys)


def _group(keys: Sequence[str], nodes: NodeColumns, rows: Rows) -> tuple[Rows, NDArray[np.intp]]:
    """Rows that stand for all with the same labels, and which of them stands for each row."""
    if not len(rows) or not keys:
        return rows[:1], np.zeros(len(rows), dtype=np.intp)
    labels = np.stack([nodes.label(key)[rows] for key in keys], axis=1)
    if labels.shape[1] == 1:
        _, first, inverse = np.unique(labels[:, 0], return_index=True, return_inverse=True)
    else:
        _, first, inverse = np.unique(labels, axis=0, return_index=True, return_inverse=True)
    return rows[first], inverse.reshape(-1)


def _match_groups(claims: Sequence[UnboundClaim], nodes: NodeColumns, rows: Rows) -> Matching:
    size = len(rows)
    affinities: dict[NodeTerms | None, Bools] = {}

    def fits(candidate: Candidate) -> Bools:
        mask = affinities.get(candidate.affinity)
        if mask is None:
            mask = affinities[candidate.affinity] = match_affinity(candidate.affinity, nodes, rows)
        return mask

    taken: dict[str, Bools] = {}
    chosen = []
    searching = [claim for claim in claims if claim.selected_node is None]
    for claim in sorted(searching, key=lambda claim: claim.size):
        choice = np.full(size, NO_VOLUME, dtype=np.int64)
        open_ = np.ones(size, dtype=np.bool_)
        for index, candidate in enumerate((*claim.prebound, *claim.candidates)):
            free = open_ & ~taken.get(candidate.name, np.zeros(size, dtype=np.bool_))
            here = free & fits(candidate)
            if here.any():
                choice[here] = index
                taken[candidate.name] = taken.get(candidate.name, np.zeros_like(here)) | here
            # A volume bound to the claim beforehand is the only one it may get.
            open_ &= ~(free if index < len(claim.prebound) else here)
            if not open_.any():
                break
        chosen.append((claim, choice))
    everywhere = np.ones(size, dtype=np.bool_)
    waiting = [(claim, everywhere) for claim in claims if claim.selected_node is not None]
    waiting += [(claim, choice == NO_VOLUME) for claim, choice in chosen]
    satisfied, enough = _provisionable(waiting, nodes, rows)
    return Matching(satisfied, enough, tuple(chosen))


def _provisionable(
    waiting: Sequence[tuple[UnboundClaim, Bools]], nodes: NodeColumns, rows: Rows
) -> tuple[Bools, Bools]:
    """(satisfied, enough storage): the first claim that fails on a row decides it."""
    satisfied = np.ones(len(rows), dtype=np.bool_)
    enough = np.ones(len(rows), dtype=np.bool_)
    for claim, here in waiting:
        undecided = here & satisfied & enough
        if not undecided.any():
            continue
        possible = _in_topology(claim.provision, nodes, rows)
        satisfied[undecided & ~possible] = False
        enough[undecided & possible & ~_has_room(claim.provision, nodes, rows)] = False
    return satisfied, enough


def _in_topology(provision: Provision, nodes: NodeColumns, rows: Rows) -> Bools:
    if provision.topologies is None:
        return np.full(len(rows), provision.possible)
    return _any_of(provision.topologies, nodes, rows)


def _has_room(provision: Provision, nodes: NodeColumns, rows: Rows) -> Bools:
    if provision.pools is None:
        return np.ones(len(rows), dtype=np.bool_)
    return _any_of([pool.requirements for pool in provision.pools], nodes, rows)


def _any_of(terms: Iterable[Sequence[Requirement] | None], nodes: NodeColumns, rows: Rows) -> Bools:
    result = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        if term is None:
            continue
        matches = np.ones(len(rows), dtype=np.bool_)
        for requirement in term:
            matches &= match_requirement(requirement, nodes, rows)
        result |= matches
    return result
