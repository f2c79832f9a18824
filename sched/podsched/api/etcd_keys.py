"""The keys that podsched uses in etcd, all defined here.

    /podsched/objects/<plural>/[<namespace>/]<name>   an object, without its resourceVersion
    /podsched/terms/<namespace>/<name>                its mod revision is the term of a lock
    /podsched/liveness/<namespace>/<name>             lives as long as the holder of a lock
    /podsched/sync                                    written to make a quiet watch move on
    /podsched/compaction                              its version counts the compactions
    /podsched/schedulers                              the locks whose holders bind pods
    /podsched/bound/<node>/<namespace>/<name>         put by a binding to a node under that lock
    /podsched/devices/<driver>/<pool>/<device>        the claim to which a device is allocated
    /podsched/addresses/<address>                     the Service that has a clusterIP
    /podsched/nodeports/<port>                        the Service that has a port of the nodes

One prefix holds them all, so that one watch sees every change in the order of revisions.

A lock is a Lease object, ``/podsched/objects/leases/<namespace>/<name>``, and the term and liveness
keys of the same name. Fencing rests on the term key: the election puts it when it acquires the
lock, the API server compares its revision with the fence of each write.
"""

from __future__ import annotations

from podsched.api.kinds import KINDS, Kind

ROOT = "/podsched/"
OBJECTS = f"{ROOT}objects/"
TERMS = f"{ROOT}terms/"
LIVENESS = f"{ROOT}liveness/"
SYNC = f"{ROOT}sync"
COMPACTION = f"{ROOT}compaction"
SCHEDULERS = f"{ROOT}schedulers"
BOUND = f"{ROOT}bound/"
DEVICES = f"{ROOT}devices/"
ADDRESSES = f"{ROOT}addresses/"
NODE_PORTS = f"{ROOT}nodeports/"

_BY_PLURAL = {kind.plural: kind for kind in KINDS.values()}


def local_key(kind: Kind, namespace: str, name: str) -> str:
    """Return the key of an object within its kind: namespace/name, or only the name."""
    return f"{namespace}/{name}" if kind.namespaced else name


def name_in(local: str) -> str:
    """Return the name of an object from its local key."""
    return local.rpartition("/")[2]


def object_key(kind: Kind, local: str) -> str:
    """Return the key of the object with this local key."""
    return f"{OBJECTS}{kind.plural}/{local}"


def kind_prefix(kind: Kind, namespace: str = "") -> str:
    """Return the prefix of the keys of a kind, in one namespace if it is given."""
    return f"{OBJECTS}{kind.plural}/{namespace}/" if namespace else f"{OBJECTS}{kind.plural}/"


def parse_object_key(key: str) -> tuple[Kind, str] | None:
    """Return the kind and local key of an object's key; None for any other key."""
    if not key.startswith(OBJECTS):
        return None
    plural, _, local = key[len(OBJECTS) :].partition("/")
    kind = _BY_PLURAL.get(plural)
    return (kind, local) if kind is not None and local else None


def lease_key(lock: str) -> str:
    """Return the key of the Lease object of the lock "namespace/name"."""
    return object_key(KINDS["Lease"], lock)


def term_key(lock: str) -> str:
    """Return the term key of the lock "namespace/name", which fences the writes of its holder."""
    return TERMS + lock


def bound_key(node: str, lock: str) -> str:
    """Return the key that bindings to a node put under the lock "namespace/name"."""
    return f"{BOUND}{node}/{lock}"


def device_key(driver: str, pool: str, device: str) -> str:
    """Return the key that names the claim to which a device is allocated.

    Only names of pools may contain slashes, so the keys of different devices differ.
    """
    return f"{DEVICES}{driver}/{pool}/{device}"


def address_key(address: str) -> str:
    """Return the key that names the Service with a clusterIP."""
    return f"{ADDRESSES}{address}"


def node_port_key(port: int) -> str:
    """Return the key that names the Service with a port of the nodes."""
    return f"{NODE_PORTS}{port}"


def liveness_key(lock: str) -> str:
    """Return the liveness key of the lock "namespace/name"."""
    return LIVENESS + lock
