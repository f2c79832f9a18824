"""The built-in roles and bindings, with Kubernetes' names where it has them.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy, v1.36. Differences: ``submitter`` is added;
the scheduler's role has the rights of the workload, node, disruption, eviction and garbage
collection controllers, which run in the leader; the volume controller runs in the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from podsched.api.kind import CHANGE, READ, WRITE, Access
from podsched.api.kinds import KINDS, Kind
from podsched.api.objects import AnyObject, ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podsched.api.validation.rbac import GROUP, RBAC_GROUP, SERVICE_ACCOUNT, USER
from podsched.lib.groups import lists_by_key
from podsched.serve.server.access.bootstrap_tokens import BOOTSTRAPPERS
from podsched.serve.server.access.controller_roles import MANAGER, controller_roles
from podsched.serve.server.access.identity import MASTERS, NODES, SERVICE_ACCOUNTS
from podsched.serve.server.access.nodes import HOLLOW_DEVICES, VOLUME_CONTROLLERS
from podsched.serve.server.methods import PASSED_ON

SCHEDULER = "system:kube-scheduler"
VOLUME_BINDER = "system:controller:persistent-volume-binder"
KUBELET_API = "system:kubelet-api-admin"
DELEGATOR = "system:auth-delegator"
DISCOVERY = "system:service-account-issuer-discovery"
BOOTSTRAPPER = "system:node-bootstrapper"
NODE_CLIENT = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
SELF_NODE_CLIENT = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
#: The user by which kubelets know API servers, as kubeadm names it.
KUBELET_CLIENT = "kube-apiserver-kubelet-client"
LEADER_LOCKING = "system::leader-locking-kube-scheduler"
_KUBE_SYSTEM = "kube-system"

_POLICY, _STORAGE = ("policy",), ("storage.k8s.io",)
_CORE, _LEASES, _NODE_GROUP = ("",), ("coordination.k8s.io",), ("node.k8s.io",)
_GROUPS, _DEVICES = ("scheduling.k8s.io",), ("resource.k8s.io",)
_CERTIFICATES = ("certificates.k8s.io",)
_METRICS = ("metrics.k8s.io",)
_QUEUES = ("kueue.x-k8s.io",)

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
#: "false": missing rights are not added to the role.
AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"

_Rule = tuple[Sequence[str], Sequence[str], Sequence[str]]
"""Verbs, API groups, resources; without groups: verbs and non-resource paths."""


def _in_groups(kinds: Iterable[Kind], *verbs: str) -> tuple[_Rule, ...]:
    by_group = lists_by_key((kind.group, kind.plural) for kind in kinds)
    return tuple((verbs, (group,), tuple(plurals)) for group, plurals in by_group.items())


def _of(*roles: Access) -> list[Kind]:
    return [kind for kind in KINDS.values() if kind.role in roles]


_VIEW: tuple[_Rule, ...] = (
    # Quotas limit the users of a namespace; only administrators set them.
    *_in_groups((k for k in _of(Access.VIEW, Access.EDIT) if not k.secret), *READ),
    # An explanation hides the names of pods in other namespaces.
    (("get",), _CORE, ("pods/explain", "pods/log")),
    # As in Kueue; those of ClusterQueues name jobs of all namespaces.
    (("get",), ("visibility.kueue.x-k8s.io",), ("localqueues/pendingworkloads",)),
    (("get", "list"), _METRICS, ("pods",)),
)
_EDIT: tuple[_Rule, ...] = (
    *_VIEW,
    *(
        (CHANGE, (k.group,), (f"{k.plural}/scale",))
        for k in _of(Access.EDIT)
        if "scale" in k.subresources
    ),
    *_in_groups(_of(Access.EDIT), *WRITE),
    *_in_groups((k for k in _of(Access.EDIT) if k.secret), *READ),
    (("create",), _CORE, ("pods/eviction", "serviceaccounts/token")),
    (("create", "get"), _CORE, ("pods/attach", "pods/exec", "pods/portforward")),
    (PASSED_ON["proxy"], _CORE, ("pods/proxy", "services/proxy")),
)
#: What an API server does at kubelets, which ask it about their callers.
_KUBELET_API: tuple[_Rule, ...] = (
    (READ, _CORE, ("nodes",)),
    (PASSED_ON["proxy"], _CORE, ("nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats")),
)


#: What servers ask that know neither tokens nor roles themselves, as kubelets do.
_DELEGATING: tuple[_Rule, ...] = (
    (("create",), ("authentication.k8s.io",), ("tokenreviews",)),
    (("create",), ("authorization.k8s.io",), ("subjectaccessreviews",)),
)

#: Rights of the garbage collector and the namespace controller, which run in the leader.
_COLLECTING: tuple[_Rule, ...] = (
    *_in_groups((k for k in KINDS.values() if not k.secret), *READ, *CHANGE),
    *_in_groups((k for k in KINDS.values() if not k.kept and not k.secret), "delete"),
    *_in_groups((k for k in KINDS.values() if k.namespaced), "deletecollection"),
)
_SCHEDULING: tuple[_Rule, ...] = (
    *_COLLECTING,
    (("create",), _CORE, ("pods/binding", "pods/eviction")),
    (("delete",), _CORE, ("pods",)),
    (CHANGE, _CORE, ("pods/status",)),
    (("answer",), _CORE, ("pods/explain",)),
    (CHANGE, _CORE, ("persistentvolumeclaims", "persistentvolumes")),
    (("create", "patch", "update"), _CORE, ("events",)),
    # The other controllers that run in the leader.
    (("create",), _CORE, ("configmaps", "persistentvolumeclaims", "serviceaccounts")),
    (CHANGE, _CORE, ("nodes", "nodes/status")),
    (CHANGE, _POLICY, ("poddisruptionbudgets/status",)),
    (CHANGE, _GROUPS, ("podgroups/status",)),
    (CHANGE, _QUEUES, ("clusterqueues/status", "cohorts/status", "localqueues/status")),
    (("create",), _CORE, ("pods",)),
    (CHANGE, ("apps",), ("replicasets/status",)),
    (CHANGE, ("batch",), ("jobs/status",)),
    (("create",), _GROUPS, ("podgroups", "workloads")),
    (("create",), _DEVICES, ("resourceclaims",)),
    (CHANGE, _DEVICES, ("resourceclaims/status", "resourceclaims/binding")),
    # To clear status.devices, which drivers write, when devices are deallocated.
    ([f"arbitrary-node:{verb}" for verb in CHANGE], _DEVICES, ("resourceclaims/driver",)),
)
_REQUESTING: _Rule = (("create", *READ), _CERTIFICATES, ("certificatesigningrequests",))
_NODE: tuple[_Rule, ...] = (
    *_DELEGATING,
    _REQUESTING,
    (("create", *READ, *CHANGE), _CORE, ("nodes",)),
    (CHANGE, _CORE, ("nodes/status",)),
    # Of its own node, and mirror pods alone (``nodes``).
    ((*READ, "create", "delete"), _CORE, ("pods",)),
    (CHANGE, _CORE, ("pods/status",)),
    (("create",), _CORE, ("pods/eviction",)),
    (READ, _CORE, ("namespaces", "persistentvolumes", "services")),
    (READ, _STORAGE, ("csidrivers", "csinodes", "storageclasses", "volumeattachments")),
    (("create", "delete", *CHANGE), _STORAGE, ("csinodes",)),
    (READ, _NODE_GROUP, ("runtimeclasses",)),
    (("create", *READ, *CHANGE, "delete", "deletecollection"), _DEVICES, ("resourceslices",)),
    (("create", "patch", "update"), _CORE, ("events",)),
    (("create", "delete", "get", *CHANGE), _LEASES, ("leases",)),
)
_VOLUMES: tuple[_Rule, ...] = (
    ((*READ, "create", "delete", *CHANGE), _CORE, ("persistentvolumes",)),
    (CHANGE, _CORE, ("persistentvolumes/status", "persistentvolumeclaims/status")),
    ((*READ, *CHANGE), _CORE, ("persistentvolumeclaims",)),
    (READ, _CORE, ("nodes",)),
    (READ, _STORAGE, ("csinodes", "storageclasses")),
)

#: The cluster roles and their rules, without those of kube-controller-manager.
CLUSTER_ROLES: dict[str, tuple[_Rule, ...]] = {
    "cluster-admin": ((("*",), ("*",), ("*",)),),
    "admin": (*_EDIT, *_in_groups(_of(Access.ADMIN), *READ, *WRITE)),
    "edit": _EDIT,
    "view": _VIEW,
    "submitter": ((("create", *READ), _CORE, ("pods",)), (("get",), _CORE, ("pods/explain",))),
    SCHEDULER: _SCHEDULING,
    "system:node": _NODE,
    VOLUME_BINDER: _VOLUMES,
    HOLLOW_DEVICES: ((("create",), _DEVICES, ("deviceclasses",)),),
    KUBELET_API: _KUBELET_API,
    DELEGATOR: (
        *_DELEGATING,
        (("create",), ("authorization.k8s.io",), ("localsubjectaccessreviews",)),
    ),
    BOOTSTRAPPER: (_REQUESTING,),
    # These decide which requests are approved at once (``certificate_signing``).
    NODE_CLIENT: ((("create",), _CERTIFICATES, ("certificatesigningrequests/nodeclient",)),),
    SELF_NODE_CLIENT: (
        (("create",), _CERTIFICATES, ("certificatesigningrequests/selfnodeclient",)),
    ),
    DISCOVERY: ((("get",), (), ("/.well-known/openid-configuration", "/openid/v1/jwks")),),
}
#: Kind and name of the subject that each cluster role is bound to.
BOUND: dict[str, tuple[str, str]] = {
    "cluster-admin": (GROUP, MASTERS),
    SCHEDULER: (USER, SCHEDULER),
    "system:node": (GROUP, NODES),
    VOLUME_BINDER: (GROUP, VOLUME_CONTROLLERS),
    HOLLOW_DEVICES: (GROUP, HOLLOW_DEVICES),
    KUBELET_API: (USER, KUBELET_CLIENT),
    BOOTSTRAPPER: (GROUP, BOOTSTRAPPERS),
    NODE_CLIENT: (GROUP, BOOTSTRAPPERS),
    SELF_NODE_CLIENT: (GROUP, NODES),
    DISCOVERY: (GROUP, SERVICE_ACCOUNTS),
    MANAGER: (USER, MANAGER),
}


def bootstrap_policy() -> list[AnyObject]:
    """Return the roles and bindings to create if they do not exist."""
    found: list[AnyObject] = []
    roles, accounts = dict(CLUSTER_ROLES), dict[str, str]()
    for name, account, rules in controller_roles():
        roles[name] = (*roles.get(name, ()), *rules)
        if account:
            accounts[name] = account
    for name, rules in roles.items():
        role = ClusterRole()
        role.metadata.name = name
        role.metadata.labels.update(_LABELS)
        role.metadata.annotations[AUTO_UPDATE] = "true"
        _add_rules(role, rules)
        found.append(role)
    for name in dict.fromkeys((*BOUND, *accounts)):
        binding = ClusterRoleBinding()
        binding.metadata.name = name
        binding.metadata.labels.update(_LABELS)
        _refer(binding, "ClusterRole", name)
        if name in BOUND:
            kind, subject = BOUND[name]
            binding.subjects.add(kind=kind, name=subject, api_group=RBAC_GROUP)
        if name in accounts:
            binding.subjects.add(kind=SERVICE_ACCOUNT, name=accounts[name], namespace=_KUBE_SYSTEM)
        found.append(binding)
    found += _leader_locking(
        LEADER_LOCKING,
        SCHEDULER,
        # Each replica has its own Lease beside the lock, for ``sched status``.
        (("create", "delete", "get", *CHANGE), _LEASES, ("leases",)),
        # For --policy-configmap; in another namespace, it needs an additional role.
        (("get",), _CORE, ("configmaps",)),
    )
    locking = "system::leader-locking-kube-controller-manager"
    rule = (("create", "get", "list", "update", "watch"), _LEASES, ("leases",))
    return [*found, *_leader_locking(locking, MANAGER, rule)]


def _leader_locking(name: str, user: str, *rules: _Rule) -> Iterator[AnyObject]:
    """Yield a Role in kube-system, and its binding to a user."""
    role, bound = Role(), RoleBinding()
    for item in (role, bound):
        item.metadata.name, item.metadata.namespace = name, _KUBE_SYSTEM
        item.metadata.labels.update(_LABELS)
    role.metadata.annotations[AUTO_UPDATE] = "true"
    _add_rules(role, rules)
    _refer(bound, "Role", name)
    bound.subjects.add(kind=USER, name=user, api_group=RBAC_GROUP)
    yield from (role, bound)


def _add_rules(role: Any, rules: Sequence[_Rule]) -> None:
    for verbs, groups, resources in rules:
        if groups:
            role.rules.add(verbs=verbs, api_groups=groups, resources=resources)
        else:
            role.rules.add(verbs=verbs, non_resource_urls=resources)


def _refer(binding: Any, kind: str, role: str) -> None:
    binding.role_ref.kind, binding.role_ref.name = kind, role
    binding.role_ref.api_group = RBAC_GROUP
