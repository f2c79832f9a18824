"""Find the volumes that suit an unbound claim, and where one could be provisioned for it.

Rules: the parts of component-helpers ``FindMatchingVolume`` and of kube-scheduler v1.36
``volumebinding/binder.go`` that do not depend on the node; ``matching`` has the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from podsched.api.node_selectors import NodeTerm, NodeTerms, compile_node_selector
from podsched.api.objects import object_key
from podsched.api.quantity import parse, value
from podsched.api.selectors import Requirement, Selector, SelectorError, compile_selector
from podsched.framework.assumed_objects import AssumedObjects
from podsched.framework.nodes import ClusterView
from podsched.plugins.volumes.claims import (
    ANN_SELECTED_NODE,
    FILESYSTEM,
    VOLUME,
    class_of,
    get_class,
    refers_to,
)
from podsched.v1 import objects_pb2 as v1

NO_PROVISIONER = "kubernetes.io/no-provisioner"
CSI_DRIVER = "CSIDriver"
CSI_STORAGE_CAPACITY = "CSIStorageCapacity"


class MatchingFailed(Exception):
    """A claim or its class is invalid; the pod's scheduling cycle ends with an error."""


def affinity_terms(affinity: v1.VolumeNodeAffinity) -> NodeTerms | None:
    """Return a volume's compiled node affinity; None if it has none."""
    return compile_node_selector(affinity.required) if affinity.HasField("required") else None


def may_match(term: NodeTerm) -> bool:
    """Return whether a term of a volume's node affinity can match any node by its labels."""
    # kube-scheduler matches a volume's affinity against a node with labels but without a name
    # (``CheckNodeAffinity``), and then leaves ``matchFields`` out.
    return term.valid and bool(term.expressions or term.fields)


def affinity_holds(terms: NodeTerms | None, node: v1.Node) -> bool:
    """Return whether a node has the labels that a volume's node affinity requires."""
    if terms is None:
        return True
    labels = node.metadata.labels
    return any(
        may_match(term) and all(r.matches(labels) for r in term.expressions) for term in terms.terms
    )


@dataclass(frozen=True, slots=True)
class KnownVolume:
    """The parts of a PersistentVolume that matching reads.

    ``ref``: (namespace, name, uid) of the claim that it is bound or pre-bound to.
    """

    name: str
    storage_class: str
    capacity: Fraction
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    labels: Mapping[str, str]
    affinity: NodeTerms | None
    ref: tuple[str, str, str] | None
    available: bool
    deleting: bool


def known_volume(volume: v1.PersistentVolume) -> KnownVolume:
    """Read a volume. Raises QuantityError."""
    spec, ref = volume.spec, volume.spec.claim_ref
    return KnownVolume(
        volume.metadata.name,
        class_of(volume),
        parse(spec.capacity.get("storage", "0")),
        spec.volume_mode or FILESYSTEM,
        spec.volume_attributes_class_name,
        frozenset(spec.access_modes),
        dict(volume.metadata.labels),
        affinity_terms(spec.node_affinity),
        (ref.namespace, ref.name, ref.uid) if spec.HasField("claim_ref") else None,
        volume.status.phase == "Available",
        volume.metadata.HasField("deletion_timestamp"),
    )


class KnownVolumes:
    """The volumes of a cluster by storage class, each parsed once; assumed volumes included."""

    def __init__(self) -> None:
        self._by_class: tuple[Hashable, dict[str, dict[str, KnownVolume]]] | None = None
        #: By name, each object and what was parsed of it: unchanged volumes are not parsed again.
        self._read: dict[str, tuple[v1.PersistentVolume, KnownVolume]] = {}

    def of_class(self, cluster: ClusterView, name: str) -> Sequence[KnownVolume]:
        """Return the volumes of a storage class, assumed ones included. Raises QuantityError."""
        version = (id(cluster), cluster.version(VOLUME))
        if self._by_class is None or self._by_class[0] != version:
            self._by_class = (version, self._read_all(cluster))
        found = self._by_class[1].get(name, {})
        volumes: AssumedObjects[v1.PersistentVolume] = cluster.assumed(VOLUME)
        # An assumption changes the claim that a volume is bound to, never its class.
        changed = {
            volume.metadata.name: known_volume(volume)
            for volume in volumes.assumed()
            if volume.metadata.name in found
        }
        return list((found | changed if changed else found).values())

    def _read_all(self, cluster: ClusterView) -> dict[str, dict[str, KnownVolume]]:
        read, known = self._read, {}
        by_class: dict[str, dict[str, KnownVolume]] = {}
        for volume in cluster.list(VOLUME):
            name = volume.metadata.name
            entry = read.get(name)
            if entry is None or entry[0] is not volume:
                entry = (volume, known_volume(volume))
            known[name] = entry
            by_class.setdefault(entry[1].storage_class, {})[name] = entry[1]
        self._read = known
        return by_class


@dataclass(frozen=True, slots=True)
class Candidate:
    """A volume that suits a claim, on the nodes that its node affinity matches."""

    name: str
    affinity: NodeTerms | None


@dataclass(frozen=True, slots=True)
class Provision:
    """The nodes where a volume could be provisioned for a claim.

    ``possible``: whether the class has a provisioner. ``topologies``: the class's
    allowedTopologies; a node must match one of them; None: all nodes do. ``pools``: the node
    topologies of the CSIStorageCapacities with room for the claim; a node must match one of them;
    None: capacity is not checked.
    """

    possible: bool
    topologies: tuple[tuple[Requirement, ...], ...] | None = None
    pools: tuple[Selector, ...] | None = None

    def keys(self) -> set[str]:
        """Return the keys of the node labels that it depends on."""
        terms = self.topologies or ()
        keys = {requirement.key for term in terms for requirement in term}
        for pool in self.pools or ():
            keys |= {requirement.key for requirement in pool.requirements or ()}
        return keys


@dataclass(frozen=True, slots=True)
class UnboundClaim:
    """A claim that waits for its first consumer.

    ``size``: requested bytes. ``selected_node``: a volume is being provisioned on this node.
    ``prebound``: volumes that are pre-bound to the claim; on a node where one can be chosen, the
    claim gets no other. ``candidates``: free volumes, smallest first.
    """

    key: str
    size: Fraction
    provision: Provision
    selected_node: str | None = None
    prebound: tuple[Candidate, ...] = ()
    candidates: tuple[Candidate, ...] = ()


def unbound_claim(
    claim: v1.PersistentVolumeClaim, volumes: Iterable[KnownVolume], cluster: ClusterView
) -> UnboundClaim:
    """Read a claim. Raises MatchingFailed, QuantityError. ``volumes``: those of its class."""
    key, size = object_key(claim), parse(claim.spec.resources.requests.get("storage", "0"))
    provision = _provision(claim, cluster)
    annotations = claim.metadata.annotations
    if ANN_SELECTED_NODE in annotations:
        return UnboundClaim(key, size, provision, annotations[ANN_SELECTED_NODE])
    spec, selector = claim.spec, _selector(claim)
    mode, attributes_class = spec.volume_mode or FILESYSTEM, spec.volume_attributes_class_name
    access_modes = frozenset(spec.access_modes)
    prebound, others = [], []
    for volume in volumes:
        if volume.ref is not None and not refers_to(volume.ref, claim):
            continue
        if volume.capacity < size or volume.mode != mode or volume.deleting:
            continue
        if volume.attributes_class != attributes_class:
            continue
        # A volume that is pre-bound to the claim need not meet its other requirements.
        if volume.ref is not None:
            prebound.append(volume)
        elif (
            volume.available
            and access_modes <= volume.access_modes
            and (selector is None or selector.matches(volume.labels))
        ):
            others.append(volume)
    others.sort(key=lambda volume: volume.capacity)
    return UnboundClaim(key, size, provision, None, _candidates(prebound), _candidates(others))


def _candidates(volumes: Iterable[KnownVolume]) -> tuple[Candidate, ...]:
    return tuple(Candidate(volume.name, volume.affinity) for volume in volumes)


def _selector(claim: v1.PersistentVolumeClaim) -> Selector | None:
    if not claim.spec.HasField("selector"):
        return None
    try:
        return compile_selector(claim.spec.selector)
    except SelectorError as error:
        raise MatchingFailed(
            f"error creating internal label selector for claim: {object_key(claim)}: {error}"
        ) from error


def _provision(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> Provision:
    """Return where a volume could be provisioned for the claim. Raises MatchingFailed."""
    name = class_of(claim)
    if not name:
        raise MatchingFailed(f'no class for claim "{object_key(claim)}"')
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
    """Return the node topologies where the driver has capacity; None: it is not checked."""
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
    """Return the size in bytes of the largest volume that fits into a pool; None: not reported."""
    if pool.HasField("maximum_volume_size"):
        return value(pool.maximum_volume_size)
    return value(pool.capacity) if pool.HasField("capacity") else None
