"""Maps gRPC methods to the verbs of roles, audit log and REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Method(NamedTuple):
    """The verb of a method. items: the field with the items of a batch that is decoded at once."""

    verb: str
    subresource: str = ""
    items: str = ""
    of_pods: bool = False


METHODS: Final[Mapping[str, Method]] = {
    "Create": Method("create"),
    "CreateBatch": Method("create"),
    "CreatePods": Method("create", of_pods=True),
    "SubmitPods": Method("create", of_pods=True),
    "Get": Method("get"),
    "GetRaw": Method("get"),
    "List": Method("list"),
    "Watch": Method("watch"),
    "Update": Method("update"),
    "UpdateStatus": Method("update", "status"),
    "Patch": Method("patch"),
    "PatchBatch": Method("patch", items="patches"),
    "PatchPodStatuses": Method("patch", "status", "patches", of_pods=True),
    "Delete": Method("delete"),
    "DeleteBatch": Method("delete", items="deletions"),
    "DeleteCollection": Method("deletecollection"),
    "Bind": Method("create", "binding", of_pods=True),
    "BindPods": Method("create", "binding", "bindings", of_pods=True),
    "Evict": Method("create", "eviction", of_pods=True),
    "EvictPods": Method("create", "eviction", "evictions", of_pods=True),
    "Explain": Method("get", "explain", of_pods=True),
    "Decisions": Method("get", "explain", of_pods=True),
    "ApplyConfig": Method("update", "configuration"),
    "Answer": Method("answer", "explain", of_pods=True),
    "Discovery": Method("get"),
}
#: For methods that concern no objects: a review creates its answer.
OTHER: Final = Method("create")

_OF_ONE: dict[tuple[str, str], str] = {}
for _name, _method in METHODS.items():
    if not _method.items:
        _OF_ONE.setdefault((_method.verb, _method.subresource), _name)


def call_of(verb: str, subresource: str) -> str:
    """Return the gRPC method for a verb on one object.

    So gRPC and REST have the same metrics, fairness shares and audit events.
    """
    return _OF_ONE.get((verb, subresource)) or _OF_ONE[verb, ""]
