"""Maps gRPC methods to Kubernetes' verbs, as roles, the audit log and the REST API name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from podsched.api.pod_parts import POD_PARTS


class Method(NamedTuple):
    """The verb and subresource of a method.

    items: the request's field with the items, for batches that are decoded as a whole; "" for
    others. of_pods: the method is for pods only.
    """

    verb: str
    subresource: str = ""
    items: str = ""
    of_pods: bool = False


#: Subresources whose requests are passed on to kubelets, and the verbs of each.
PASSED_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "attach": ("create", "get"),
    "exec": ("create", "get"),
    "log": ("get",),
    "portforward": ("create", "get"),
    "proxy": ("create", "delete", "get", "patch", "update"),
}
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
    # Of the REST API alone.
    "CreateToken": Method("create", "token"),
    **{
        f"{verb.title()}{name.title()}": Method(verb, name)
        for name in ("approval", *POD_PARTS)
        for verb in ("update", "patch")
    },
    **{
        f"{verb.title()}{name.title()}": Method(verb, name)
        for name, verbs in PASSED_ON.items()
        for verb in verbs
    },
}
#: For methods that concern no objects: a review creates its answer.
OTHER: Final = Method("create")

_OF_ONE: dict[tuple[str, str], str] = {}
for _name, _method in METHODS.items():
    if not _method.items:
        _OF_ONE.setdefault((_method.verb, _method.subresource), _name)


def call_of(verb: str, subresource: str) -> str:
    """Return the gRPC method for a verb on one object, such as "Bind" for create on "binding".

    REST calls are counted under it, so that both transports share metrics, flows and audit events.
    """
    return _OF_ONE.get((verb, subresource)) or _OF_ONE[verb, ""]
