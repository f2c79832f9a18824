"""The caller's rights, checked wherever the server reads or writes an object for a client.

``rights()`` are those of the current call; outside of a call, the server's own, which are
unlimited. system:masters and, without authentication, all callers may do everything, which costs
one attribute access. For others a check is a lookup by (verb, kind, subresource, namespace), about
0.3 us.

Verbs and subresources are Kubernetes'. Only this API has these:

    create pods/binding     also for a pod that is created with a node in its spec
    bindunfenced pods/binding   bind without a fence through gRPC, without leading
    get pods/explain        ask why a pod is pending, or why it is on its node
    update leases/configuration     give the schedulers another configuration
    answer pods/explain     answer such questions, as a scheduler replica
    use priorityclasses     create pods of a system class outside kube-system
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final

from podsched.api.kinds import KINDS, Kind
from podsched.serve.server import errors
from podsched.serve.server.access.identity import SERVER, UNSECURED, Identity, TokenRejected, caller
from podsched.serve.server.access.node_pods import NodePods
from podsched.serve.server.access.nodes import NodeScope, node_scope
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rules import names_permitted, path_permitted

#: Max cached checks of one identity; with more, all are dropped.
_MAX_REMEMBERED = 4096
#: Max characters of a cached check; longer ones name no existing object and could fill the memory.
_LONGEST_REMEMBERED = 1000
_NO_ROLES = Policy()
_NAMESPACE: Final = KINDS["Namespace"]


class Rights:
    """The rights of an identity at one state of the roles.

    everything: unlimited rights; node: the nodes that an agent is limited to.
    """

    __slots__ = (
        "_latest",
        "_pods",
        "_remembered",
        "everything",
        "grants",
        "identity",
        "node",
        "policy",
    )

    def __init__(
        self,
        identity: Identity,
        policy: Policy = _NO_ROLES,
        *,
        everything: bool = False,
        latest: Callable[[Identity], Rights] | None = None,
        pods: NodePods | None = None,
    ) -> None:
        """latest: returns the current rights of an identity. pods: what those of nodes refer to."""
        self.identity = identity
        self.policy = policy
        self.grants = policy.grants(identity.user, identity.groups)
        self.everything = everything
        self.node: NodeScope | None = (
            None if everything else node_scope(identity.user, identity.groups)
        )
        self._pods = pods
        self._latest = latest
        self._remembered: dict[tuple[str, str, str, str], frozenset[str] | None] = {}

    def latest(self) -> Rights:
        """Return the identity's current rights: this object if nothing has changed."""
        return self if self._latest is None else self._latest(self.identity)

    def permit(
        self, verb: str, group: str, resource: str, namespace: str = "", name: str = ""
    ) -> bool:
        """Return whether a verb on a resource is permitted; name "" means every object."""
        if self.everything:
            return True
        key = (verb, group, resource, namespace)
        try:
            names = self._remembered[key]
        except KeyError:
            rules = self.grants.rules_in(namespace)
            names = names_permitted(rules, verb, group, resource)
            if sum(map(len, key)) <= _LONGEST_REMEMBERED:
                if len(self._remembered) >= _MAX_REMEMBERED:
                    self._remembered.clear()
                self._remembered[key] = names
        if names is None or (bool(name) and name in names):
            return True
        if self.node is None or self._pods is None:
            return False
        return self._pods.permits(self.node.pattern, verb, group, resource, namespace, name)

    def refers_to(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether a pod of the caller's node refers to an object of its namespace."""
        if self.node is None or self._pods is None:
            return False
        return self._pods.refer_to(self.node.pattern, kind, namespace, name)

    def uid_of_node(self, name: str) -> str:
        """Return the uid of a node, "" if it is unknown."""
        return self._pods.uid_of(name) if self._pods is not None else ""

    def permit_path(self, verb: str, path: str) -> bool:
        """Return whether a verb on a non-resource path is permitted."""
        return self.everything or path_permitted(self.grants.rules_in(""), verb, path)

    def check_path(self, verb: str, path: str) -> None:
        """Raise ApiError PERMISSION_DENIED unless a verb on a non-resource path is permitted."""
        if not self.permit_path(verb, path):
            user = self.identity.user
            raise errors.not_permitted(f'forbidden: User "{user}" cannot {verb} path "{path}"')

    def check_resource(
        self, shown: str, verb: str, group: str, resource: str, namespace: str, name: str = ""
    ) -> None:
        """Raise ApiError PERMISSION_DENIED unless a verb on a resource is permitted.

        shown: what the message calls it. For resources that are not of a stored kind.
        """
        if not self.permit(verb, group, resource, namespace, name):
            why = self._cannot(verb, group, resource, namespace)
            raise errors.not_permitted(f"{shown} is forbidden: {why}")

    def check(
        self, verb: str, kind: Kind, namespace: str = "", name: str = "", subresource: str = ""
    ) -> None:
        """Raise ApiError PERMISSION_DENIED unless a verb on a kind is permitted."""
        if self.everything:
            return
        resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
        namespace = scope_of(verb, kind, namespace, name)
        if not self.permit(verb, kind.group, resource, namespace, name):
            why = self._cannot(verb, kind.group, resource, namespace)
            raise errors.forbidden(kind, name, why)

    def _cannot(self, verb: str, group: str, resource: str, namespace: str) -> str:
        """Return why a verb is refused, as Kubernetes says it."""
        where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        return (
            f'User "{self.identity.user}" cannot {verb} resource "{resource}" '
            f'in API group "{group}" {where}'
        )


def scope_of(verb: str, kind: Kind, namespace: str, name: str) -> str:
    """Return the namespace whose roles permit a verb on a kind; "": those of the cluster alone.

    A Namespace belongs to itself, as in Kubernetes: who may read all in it may read it too.
    """
    if kind is _NAMESPACE and verb not in ("list", "watch"):
        return name
    return namespace if kind.namespaced else ""


#: The server's own rights outside of calls.
OWN: Final = Rights(SERVER, everything=True)
#: The rights of every caller without authentication.
UNRESTRICTED: Final = Rights(UNSECURED, everything=True)

_rights: ContextVar[Rights] = ContextVar("rights", default=OWN)


def rights() -> Rights:
    """Return the rights in the current call."""
    return _rights.get()


def set_rights(found: Rights) -> None:
    """Set the rights in the call that this task handles."""
    _rights.set(found)


class WatchRight:
    """Checks the right to watch kinds for the duration of a watch."""

    def __init__(self, kinds: Iterable[Kind], namespace: str, name: str = "") -> None:
        """Raise ApiError unless all kinds may be watched; name: of the only object watched."""
        self._kinds = tuple(kinds)
        self._namespace, self._name = namespace, name
        self._rights = rights()
        # Rights are shared by all credentials of a user, of which this call has the caller's.
        self._identity = caller()
        self._check()

    def check(self) -> None:
        """Raise ApiError if the right has been withdrawn or the credential has expired."""
        if self._identity.expires <= time.time():
            raise errors.unauthenticated("the credential has expired")
        if self._identity.recheck is not None:
            try:
                self._identity.recheck()
            except TokenRejected as rejected:
                raise errors.unauthenticated(str(rejected)) from None
        latest = self._rights.latest()
        if latest is not self._rights:
            self._rights = latest
            self._check()

    def _check(self) -> None:
        for kind in self._kinds:
            self._rights.check("watch", kind, self._namespace, self._name)
