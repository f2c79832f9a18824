"""Limits an agent's or kubelet's identity to its own nodes, in addition to its roles.

As Kubernetes' NodeRestriction (plugin/pkg/admission/noderestriction, v1.36): a member of the group
system:nodes writes only what is its own:

    its Node               but not taints, owners, and labels that decide about security
    its Lease and CSINode
    its ResourceSlices     the devices of its node
    pods bound to it       their status, but not their labels; it creates mirror pods, and tokens

As Kubernetes' node authorizer (plugin/pkg/auth/authorizer/node, v1.36): it reads by name what its
pods refer to, which no role permits: Secrets, ConfigMaps, claims and ServiceAccounts. Of what is
above it reads its own, as kubelets of v1.36 ask, and the volumes of its pods' claims. Agents with
hollow nodes read all.

Stricter than Kubernetes, it cannot cordon or uncordon its Node, set its finalizers, or change its
pods' annotations. The user may be a pattern, "system:node:lab-*", for an agent that simulates all
nodes with this prefix: "*" cannot be part of a node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from podsched.api import node_labels
from podsched.api.kinds import Kind
from podsched.api.metadata_defaulting import NODE_LEASES
from podsched.api.objects import (
    AnyObject,
    CSINode,
    Lease,
    Node,
    PersistentVolume,
    Pod,
    ResourceSlice,
    VolumeAttachment,
)
from podsched.api.pod_references import references
from podsched.api.service_accounts import MIRROR_POD, is_mirror_pod
from podsched.serve.server import errors
from podsched.serve.server.access.identity import NODES
from podsched.serve.server.scope import selected

VOLUME_CONTROLLERS: Final = "system:volume-controllers"
#: Agents whose hollow nodes have devices: group and role.
HOLLOW_DEVICES: Final = "system:hollow-devices"
USER_PREFIX: Final = "system:node:"
_RESTRICTED = ("kubernetes.io", "k8s.io")
_OWN_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN_LABELS = frozenset(
    {
        node_labels.ARCH,
        node_labels.HOSTNAME,
        node_labels.OS,
        node_labels.REGION,
        node_labels.ZONE,
        node_labels.BETA_ARCH,
        node_labels.BETA_INSTANCE_TYPE,
        node_labels.BETA_OS,
        node_labels.BETA_REGION,
        node_labels.BETA_ZONE,
    }
)
#: What a kubelet reads by name alone.
_READ_SINGLY: Final = ("CSINode", "PersistentVolume", "VolumeAttachment")
#: Metadata that determines when an object is removed.
_HELD_BY: Final = ("owner_references", "finalizers")
_UNREFERRED: Final = {
    "ServiceAccount": "a service account",
    "Secret": "secrets",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "ResourceClaim": "resourceclaims",
}


class NodeScope(NamedTuple):
    """The nodes of an identity: one, or all with a prefix; "": none.

    reads_all: whether it may read all nodes and pods, as an agent with hollow nodes.
    """

    pattern: str
    reads_all: bool = False

    @property
    def is_kubelet(self) -> bool:
        """Whether it is one node, as a kubelet is."""
        return bool(self.pattern) and not self.pattern.endswith("*")

    def includes(self, node: str) -> bool:
        """Return whether a node is one of the identity's."""
        if self.pattern.endswith("*"):
            return bool(node) and node.startswith(self.pattern[:-1])
        return bool(node) and node == self.pattern

    def check_selection(self, kind: Kind, fields: str) -> None:
        """Raise ApiError for a list or watch of other nodes, or of their pods.

        fields: the field selector.
        """
        if self.reads_all:
            return
        if kind.name in _READ_SINGLY:
            raise self._refused(kind, "", "can only get individual resources of this type")
        if kind.name in ("Pod", "ResourceSlice"):
            field = "spec.nodeName"
            why = f"can only list/watch {kind.plural} with spec.nodeName field selector"
        elif kind.name == "Node":
            field, why = "metadata.name", "cannot read all nodes, only its own Node object"
        else:
            return
        if not self.includes(selected(fields, field)):
            raise self._refused(kind, "", why)

    def check_read(
        self, kind: Kind, item: AnyObject, refers: Callable[[str, str, str], bool]
    ) -> None:
        """Raise ApiError for an object of another node.

        refers: whether a pod of this node refers to an object: its kind, namespace and name.
        """
        if self.reads_all:
            return
        metadata, own = item.metadata, True
        why = "no relationship found between this node and this object"
        if isinstance(item, Pod):
            own, why = self.includes(item.spec.node_name), "is not bound to this node"
        elif isinstance(item, Node):
            own, why = self.includes(metadata.name), "can read only its own Node object"
        elif isinstance(item, ResourceSlice | VolumeAttachment):
            own = self.includes(item.spec.node_name)
        elif isinstance(item, PersistentVolume):
            claim = item.spec.claim_ref
            own = refers("PersistentVolumeClaim", claim.namespace, claim.name)
        elif isinstance(item, CSINode):
            own = self.includes(metadata.name)
        elif isinstance(item, Lease):
            own = metadata.namespace == NODE_LEASES and self.includes(metadata.name)
        if not own:
            raise self._refused(kind, metadata.name, why)

    def check_creation(
        self, kind: Kind, new: AnyObject, uid_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        """Raise ApiError if the limits forbid creating an object.

        uid_of: returns the uid of a node, "" if it is unknown.
        """
        self.check_address(kind, new.metadata.namespace, new.metadata.name)
        if isinstance(new, Node):
            self._check_labels(kind, new.metadata.name, {}, new.metadata.labels)
        elif isinstance(new, ResourceSlice):
            self._check_slice(kind, new)
        elif isinstance(new, Pod) and (why := _why_not_created(self, new, uid_of)):
            raise self._refused(kind, new.metadata.name, why)

    def check_address(self, kind: Kind, namespace: str, name: str) -> None:
        """Raise ApiError for another node, its Lease or its CSINode."""
        if kind.name in ("Node", "CSINode") and not self.includes(name):
            raise self._refused(kind, name, "cannot be written by this node")
        if kind.name == "Lease" and not (namespace == NODE_LEASES and self.includes(name)):
            raise self._refused(
                kind, name, f"can only access node lease of its own in {NODE_LEASES}"
            )

    def check_change(self, kind: Kind, old: AnyObject, new: AnyObject | None) -> None:
        """Raise ApiError if the limits forbid changing or removing (None) an object."""
        metadata = old.metadata
        self.check_address(kind, metadata.namespace, metadata.name)
        if isinstance(old, Pod):
            if not self.includes(old.spec.node_name):
                why = f'is bound to "{old.spec.node_name}", not to this node'
                raise self._refused(kind, metadata.name, why)
            if new is not None:
                self._check_kept(kind, old, new, ("labels", "annotations", *_HELD_BY))
                if isinstance(new, Pod) and _claims_in(old) != _claims_in(new):
                    why = "cannot update resource claim statuses"
                    raise self._refused(kind, metadata.name, why)
        elif isinstance(old, ResourceSlice):
            self._check_slice(kind, old)
        elif isinstance(old, Node) and isinstance(new, Node):
            self._check_labels(kind, metadata.name, metadata.labels, new.metadata.labels)
            self._check_kept(kind, old, new, _HELD_BY)
            if list(old.spec.taints) != list(new.spec.taints):
                raise self._refused(kind, metadata.name, "a node may not modify its taints")
            if old.spec.unschedulable != new.spec.unschedulable:
                raise self._refused(kind, metadata.name, "a node may not cordon or uncordon itself")

    def check_token(
        self,
        kind: Kind,
        name: str,
        reference: Mapping[str, Any],
        pod: Pod | None,
        audiences: Sequence[str],
        named: Set[str],
    ) -> None:
        """Raise ApiError unless a token, bound as ``reference`` says, is for one of its pods.

        name: of the ServiceAccount; audiences: those asked for, by default that of the API, "";
        named: those that the pod and the CSI drivers of its volumes name.
        """
        why = ""
        if pod is None:
            why = "node requested token not bound to a pod"
        elif not reference.get("uid"):
            why = "node requested token with a pod binding without a uid"
        elif not self.includes(pod.spec.node_name):
            why = "node requested token bound to a pod scheduled on a different node"
        elif missing := sorted({*(audiences or ("",))} - named):
            why = f'audience "{missing[0][:100]}" not found in pod spec volume'
        if why:
            raise self._refused(kind, name, why)

    def _check_slice(self, kind: Kind, item: ResourceSlice) -> None:
        # Its node cannot be changed.
        if not self.includes(item.spec.node_name):
            why = "can only write ResourceSlices with its own nodeName"
            raise self._refused(kind, item.metadata.name, why)

    def _check_kept(
        self, kind: Kind, old: AnyObject, new: AnyObject, fields: Iterable[str]
    ) -> None:
        """Raise ApiError for a change of metadata that an agent may not change."""
        for field in fields:
            if getattr(old.metadata, field) != getattr(new.metadata, field):
                shown = old.metadata.DESCRIPTOR.fields_by_name[field].json_name
                why = f"a node may not modify metadata.{shown} of {kind.plural}"
                raise self._refused(kind, old.metadata.name, why)

    def _check_labels(
        self, kind: Kind, name: str, old: Mapping[str, str], new: Mapping[str, str]
    ) -> None:
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        if bad := sorted(_not_own(changed)):
            raise self._refused(kind, name, f"a node may not set the labels {', '.join(bad)}")

    def _refused(self, kind: Kind, name: str, why: str) -> errors.ApiError:
        return errors.forbidden(kind, name, f'node "{self.pattern}": {why}')


def node_scope(user: str, groups: Iterable[str]) -> NodeScope | None:
    """Return the nodes that an identity is limited to; None if it is not an agent (no limit).

    A member of system:nodes may write to no node at all if its user is not "system:node:NAME".
    """
    if NODES not in groups:
        return None
    pattern = user.removeprefix(USER_PREFIX) if user.startswith(USER_PREFIX) else ""
    reads_all = not {HOLLOW_DEVICES, VOLUME_CONTROLLERS}.isdisjoint(groups)
    return NodeScope(pattern, reads_all or pattern.endswith("*"))


def _why_not_created(own: NodeScope, pod: Pod, uid_of: Callable[[str], str]) -> str:
    """Return why a node may not create a pod; "" for a mirror pod of its own."""
    owners = pod.metadata.owner_references
    referred = (kind for kind, found in references(pod) if found and kind in _UNREFERRED)
    if not is_mirror_pod(pod):
        return f'pod does not have "{MIRROR_POD}" annotation: a node can only create mirror pods'
    if not own.includes(pod.spec.node_name):
        return "can only create pods with spec.nodeName set to itself"
    if len(owners) != 1 or (owners[0].kind, owners[0].name) != ("Node", pod.spec.node_name):
        return "can only create pods with a single owner reference set to itself"
    if not owners[0].controller:
        return "can only create pods with a controller owner reference set to itself"
    if owners[0].block_owner_deletion:
        return "must not set blockOwnerDeletion on an owner reference"
    if (uid := uid_of(pod.spec.node_name)) and owners[0].uid != uid:
        return f"UID mismatch: expected {owners[0].uid[:64]} got {uid}"
    # A claim may also be made from a template.
    first = next(referred, "ResourceClaim" if pod.spec.resource_claims else "")
    if first:
        return f"can not create pods that reference {_UNREFERRED[first]}"
    return ""


def _claims_in(pod: Pod) -> tuple[object, object]:
    """Return what a pod's status says of its claims: the pod's node may read and change these."""
    status = pod.status
    return list(status.resource_claim_statuses), status.extended_resource_claim_status


def _not_own(keys: Iterable[str]) -> Iterable[str]:
    """Yield the labels that only administrators may set on nodes."""
    for key in keys:
        domain, slash, _ = key.partition("/")
        if not slash or key in _OWN_LABELS:
            continue
        if any(domain == own or domain.endswith(f".{own}") for own in _OWN_PREFIXES):
            continue
        if any(domain == kept or domain.endswith(f".{kept}") for kept in _RESTRICTED):
            yield key
