"""Where things lie in etcd.

    /podsched/objects/<plural>/[<namespace>/]<name>   an object, without its resourceVersion
    /podsched/terms/<namespace>/<name>   its mod revision is the term that holds a lock
    /podsched/sync                       written to make a quiet watch move on

One prefix holds them all, so that one watch sees every change in the order of revisions.
"""

from __future__ import annotations

from podsched.api.kinds import KINDS, Kind

ROOT = "/podsched/"
OBJECTS = "/podsched/objects/"
TERMS = "/podsched/terms/"
SYNC = "/podsched/sync"

_BY_PLURAL = {kind.plural: kind for kind in KINDS.values()}


def local_key(kind: Kind, namespace: str, name: str) -> str:
    """Return what names an object within its kind: namespace/name, or the name alone."""
    return f"{namespace}/{name}" if kind.namespaced else name


def object_key(kind: Kind, local: str) -> str:
    """Return the etcd key of the object that its kind knows by this local key."""
    return f"{OBJECTS}{kind.plural}/{local}"


def kind_prefix(kind: Kind, namespace: str = "") -> str:
    """Return what the etcd keys of a kind (and namespace) begin with."""
    return f"{OBJECTS}{kind.plural}/{namespace}/" if namespace else f"{OBJECTS}{kind.plural}/"


def parse_key(key: str) -> tuple[Kind, str] | None:
    """Return the kind and local key of an etcd key; None when it is no object of a known kind."""
    if not key.startswith(OBJECTS):
        return None
    plural, _, local = key[len(OBJECTS) :].partition("/")
    kind = _BY_PLURAL.get(plural)
    return (kind, local) if kind is not None and local else None


def term_key(lock: str) -> str:
    """Return the fence of the lock "namespace/name"."""
    return TERMS + lock
