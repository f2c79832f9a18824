"""Adds missing rights to the built-in roles when a server of a newer version starts.

No rights are removed. As in Kubernetes, a role with the annotation
``rbac.authorization.kubernetes.io/autoupdate: "false"`` is not changed; unlike there, neither are
roles for people, such as ``view``, which no component depends on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, ClusterRole, Role, object_key
from podsched.serve.server.access.bootstrap_policy import AUTO_UPDATE, bootstrap_policy
from podsched.serve.server.access.rules import Rule, not_covered
from podsched.serve.server.admission import encoded
from podsched.serve.server.entries import Entry
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.watchcache import WatchCache

_SYSTEM_PREFIX = "system:"


def role_extensions(cache: WatchCache) -> Iterator[Mutation]:
    """Yield the changes of built-in roles that lack rights."""
    for wanted in bootstrap_policy():
        kind, key = kind_of(wanted), object_key(wanted)
        if not wanted.metadata.name.startswith(_SYSTEM_PREFIX):
            continue
        stored = cache.get(kind, key)
        extend = _extension_by(wanted)
        if stored is not None and extend(stored) is not None:
            yield Mutation(kind, key, extend)


def _extension_by(wanted: AnyObject) -> Callable[[Entry], Step | None]:
    def extend(entry: Entry) -> Step | None:
        role = entry.decode()
        if not isinstance(role, Role | ClusterRole) or not isinstance(wanted, Role | ClusterRole):
            return None
        if role.metadata.annotations.get(AUTO_UPDATE) == "false":
            return None
        owned = [Rule.of(rule) for rule in role.rules]
        missing = [rule for rule in wanted.rules if not_covered(owned, [Rule.of(rule)]) != []]
        role.rules.extend(missing)
        return Step(encoded(entry.kind, role)) if missing else None

    return extend
