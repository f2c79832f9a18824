"""Looks up the objects that admission needs, in the watch cache.

Values derived from many objects, such as the LimitRanges by namespace, are recomputed only when one
of these objects has changed. So creating a pod costs a few dictionary lookups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from podsched.api.device_claims import ADMIN_ACCESS, admin_request
from podsched.api.etcd_keys import local_key
from podsched.api.hollow_nodes import is_hollow
from podsched.api.kinds import KINDS
from podsched.api.metadata_defaulting import DEFAULT_NAMESPACE
from podsched.api.objects import (
    AnyObject,
    ClusterRoleBinding,
    LimitRange,
    Node,
    Pod,
    PodGroup,
    ResourceClaim,
    ResourceClaimTemplate,
    RoleBinding,
    RuntimeClass,
    ServiceAccount,
    Workload,
)
from podsched.api.owners import CONTROLLER_MANAGER_LEASE, held_until
from podsched.api.priorities import PriorityClasses
from podsched.api.storage_classes import default_class
from podsched.lib.groups import lists_by_key
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.entries import Entry
from podsched.serve.server.watchcache import Derived, WatchCache

_PRIORITY_CLASS, _RUNTIME_CLASS = KINDS["PriorityClass"], KINDS["RuntimeClass"]
_LIMIT_RANGE, _STORAGE_CLASS = KINDS["LimitRange"], KINDS["StorageClass"]
_WORKLOAD, _NAMESPACE = KINDS["Workload"], KINDS["Namespace"]
_LEASE, _ACCOUNT = KINDS["Lease"], KINDS["ServiceAccount"]
_ROLE, _CLUSTER_ROLE = KINDS["Role"], KINDS["ClusterRole"]
_REQUEST = KINDS["CertificateSigningRequest"]
#: Kinds that affect admission: a write of one is answered once this server's cache has it.
_POLICIES = frozenset({_LIMIT_RANGE.name, _STORAGE_CLASS.name, _NAMESPACE.name})


class _NodeKinds:
    """Whether there are hollow nodes and real ones."""

    def __init__(self) -> None:
        self._hollow: dict[str, bool] = {}
        self._real = 0

    def changed(self, key: str, entry: Entry | None) -> None:
        """Note a node's present version; None: it is removed."""
        if self._hollow.pop(key, True) is False:
            self._real -= 1
        if entry is not None:
            hollow = self._hollow[key] = is_hollow(cast(Node, entry.message))
            self._real += not hollow

    @property
    def all_hollow(self) -> bool:
        """Whether there are nodes, and all are hollow."""
        return bool(self._hollow) and not self._real


class AdmissionSources:
    """The policies and classes used in admission, read from the watch cache."""

    def __init__(
        self,
        cache: WatchCache,
        reflector: CacheReflector,
        *,
        mount_tokens: bool = False,
        pod_group_claims: bool = False,
    ) -> None:
        """mount_tokens: whether pods get their ServiceAccount and a volume with its token.

        pod_group_claims: whether PodGroups may have claims.
        """
        self.pod_group_claims = pod_group_claims
        self._cache = cache
        self._reflector = reflector
        self._mount_tokens = mount_tokens
        self._nodes = _NodeKinds()
        if mount_tokens:
            cache.follow(KINDS["Node"], self._nodes.changed)
        #: Return the compiled PriorityClasses, and the name of the default StorageClass or "".
        self.priority_classes = Derived(
            cache, lambda: PriorityClasses([*cache.messages(_PRIORITY_CLASS)]), _PRIORITY_CLASS
        )
        self.default_storage_class = Derived(
            cache, lambda: default_class(cache.messages(_STORAGE_CLASS)), _STORAGE_CLASS
        )
        #: Returns the number of certificate requests by the user who made them.
        self.requests_of_users = Derived(
            cache, lambda: Counter(r.spec.username for r in cache.messages(_REQUEST)), _REQUEST
        )
        self._ranges = Derived(cache, lambda: _by_namespace(cache), _LIMIT_RANGE)

    def runtime_class(self, name: str) -> RuntimeClass | None:
        """Return a RuntimeClass by name, None if it does not exist."""
        return self._cache.message(_RUNTIME_CLASS, name, RuntimeClass)

    def mounts_tokens(self, *, of_kubernetes: bool) -> bool:
        """Return whether a new pod gets its ServiceAccount and a volume with its token.

        of_kubernetes: it is created through Kubernetes' API, and gets them as there. Others do not
        where all nodes are hollow: nothing would use the token, which costs as much as such a pod.
        """
        return self._mount_tokens and (of_kubernetes or not self._nodes.all_hollow)

    def service_account(self, namespace: str, name: str) -> ServiceAccount | None:
        """Return a ServiceAccount, None if it does not exist."""
        key = f"{namespace or DEFAULT_NAMESPACE}/{name}"
        return self._cache.message(_ACCOUNT, key, ServiceAccount)

    def permits_admin_access(self, namespace: str) -> bool:
        """Return whether claims of a namespace may have administrators' access to devices."""
        entry = self._cache.get(_NAMESPACE, namespace or DEFAULT_NAMESPACE)
        return entry is not None and entry.message.metadata.labels.get(ADMIN_ACCESS) == "true"

    def has_controller_manager(self, now: float) -> bool:
        """Return whether a kube-controller-manager holds its Lease at a Unix time in seconds."""
        entry = self._cache.get(_LEASE, CONTROLLER_MANAGER_LEASE)
        return entry is not None and now <= held_until(entry.message)

    def limit_ranges(self, namespace: str) -> Sequence[LimitRange]:
        """Return the LimitRanges of a namespace, sorted by name."""
        return self._ranges().get(namespace, ())

    def workload_of(self, group: PodGroup) -> Workload | None:
        """Return the Workload that a PodGroup names, None if it does not exist."""
        name = group.spec.pod_group_template_ref.workload.workload_name
        key = local_key(_WORKLOAD, group.metadata.namespace or DEFAULT_NAMESPACE, name)
        return self._cache.message(_WORKLOAD, key, Workload)

    def has_all_for(self, message: AnyObject) -> bool:
        """Return whether the cache has the classes, Workload, role and label that an object needs.

        If not, another server may have just created them (``refresh``).
        """
        if isinstance(message, ResourceClaim | ResourceClaimTemplate):
            return not admin_request(message) or self.permits_admin_access(
                message.metadata.namespace
            )
        if isinstance(message, RoleBinding | ClusterRoleBinding):
            kind = _CLUSTER_ROLE if message.role_ref.kind == _CLUSTER_ROLE.name else _ROLE
            namespace = message.metadata.namespace or DEFAULT_NAMESPACE
            key = local_key(kind, namespace, message.role_ref.name)
            return self._cache.get(kind, key) is not None
        if not isinstance(message, Pod | PodGroup):
            return True
        priority = message.spec.priority_class_name
        if priority and self.priority_classes().get(priority) is None:
            return False
        if isinstance(message, PodGroup):
            named = message.spec.pod_group_template_ref.workload.workload_name
            return not named or self.workload_of(message) is not None
        account = message.spec.service_account_name if self._mount_tokens else ""
        if account and self.service_account(message.metadata.namespace, account) is None:
            return False
        runtime = message.spec.runtime_class_name
        return not runtime or self.runtime_class(runtime) is not None

    async def refresh(self) -> None:
        """Wait until the cache shows all writes of other servers. Raises ApiError."""
        await self._reflector.wait_until_fresh()

    async def settle(self, written: Iterable[object]) -> None:
        """Wait until the cache has the written objects, if they affect admission."""
        revisions = [
            item.revision
            for item in written
            if isinstance(item, Entry) and item.kind.name in _POLICIES
        ]
        if revisions:
            await self._cache.progress.settle(max(revisions))


def _by_namespace(cache: WatchCache) -> dict[str, list[LimitRange]]:
    return lists_by_key(
        (entry.key.partition("/")[0], cast(LimitRange, entry.message))
        for entry in cache.in_order(_LIMIT_RANGE)
    )
