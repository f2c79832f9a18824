"""Determines the rights of identities from the roles and bindings in the watch cache.

The policy is recompiled when one of these objects changes; rights are cached for each identity,
unless its names are very long.
"""

from __future__ import annotations

from collections.abc import Callable

from podsched.api.kinds import KINDS
from podsched.serve.server import errors
from podsched.serve.server.access.identity import MASTERS, Identity
from podsched.serve.server.access.node_pods import NodePods
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rights import Rights
from podsched.serve.server.watchcache import Derived, WatchCache

_RBAC = tuple(KINDS[name] for name in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"))
#: Max cached rights, one for each combination of user and groups.
_KEPT = 4096
#: Max characters of the names of an identity whose rights are cached. Those in a review of what
#: others may do can have 1 MB, so that 4,096 of them would take 4 GB.
_LARGEST = 4096


class Authorizer:
    """Returns the rights of identities.

    is_ready: whether the cache has the roles; until then only system:masters are authorized.
    """

    def __init__(self, cache: WatchCache, is_ready: Callable[[], bool]) -> None:
        self._cache = cache
        self._is_ready = is_ready
        self._policy = Derived(cache, self._compile, *_RBAC)
        #: What the pods of nodes refer to; up to date as of the last ``NodePods.catch_up``.
        self.node_pods = NodePods(cache)
        self._known: dict[tuple[str, frozenset[str]], Rights] = {}

    async def prepare(self, rights: Rights) -> None:
        """Bring up to date what the rights of a kubelet depend on: the pods of its node."""
        if rights.node is not None and rights.node.is_kubelet:
            await self.node_pods.catch_up()

    def rights_of(self, identity: Identity) -> Rights:
        """Return the rights of an identity. Raises ApiError UNAVAILABLE during the start."""
        if MASTERS in identity.groups:
            return Rights(identity, everything=True)
        if not self._is_ready():
            raise errors.starting()
        policy = self._policy()
        key = (identity.user, identity.groups)
        found = self._known.get(key)
        if found is None:
            found = Rights(identity, policy, latest=self.rights_of, pods=self.node_pods)
            if len(identity.user) + sum(map(len, identity.groups)) > _LARGEST:
                return found
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = found
        return found

    def _compile(self) -> Policy:
        self._known.clear()
        return Policy(*(self._cache.messages(kind) for kind in _RBAC))
