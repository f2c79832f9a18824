"""podsched: a highly available pod scheduler with the semantics of kube-scheduler.

For programs that use its API::

    from podsched import Client, from_manifest

    with Client("127.0.0.1:7443") as client:
        client.create(from_manifest({"apiVersion": "v1", "kind": "Pod", ...}).message)
        for change in client.watch(["pods"], "default"):
            print(change.type, change.object.metadata.name, change.object.spec.node_name)

``ApiClient`` has the same methods as coroutines, ``watch`` as an async iterator. Calls that do not
succeed raise one of the ``ClientError``s below. Plugins are written against ``podsched.framework``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podsched.api.manifest import from_manifest, to_manifest
    from podsched.api.objects import Node, Pod, PodDisruptionBudget, PriorityClass
    from podsched.serve.client.api_client import ApiClient, Listing
    from podsched.serve.client.channels import ClientOptions
    from podsched.serve.client.errors import (
        AlreadyBound,
        AlreadyExists,
        ClientError,
        Compacted,
        Conflict,
        DisruptionBudget,
        FenceLost,
        Forbidden,
        Invalid,
        NotBindable,
        NotFound,
        OutcomeUnknown,
        PreconditionFailed,
        ServerBug,
        TooLarge,
        TooManyRequests,
        Unauthorized,
        Unavailable,
        Unreadable,
        of_result,
    )
    from podsched.serve.client.object_watch import Change, ChangeType
    from podsched.serve.client.sync import Client

__version__ = "0.1.0"

__all__ = [
    "AlreadyBound",
    "AlreadyExists",
    "ApiClient",
    "Change",
    "ChangeType",
    "Client",
    "ClientError",
    "ClientOptions",
    "Compacted",
    "Conflict",
    "DisruptionBudget",
    "FenceLost",
    "Forbidden",
    "Invalid",
    "Listing",
    "Node",
    "NotBindable",
    "NotFound",
    "OutcomeUnknown",
    "Pod",
    "PodDisruptionBudget",
    "PreconditionFailed",
    "PriorityClass",
    "ServerBug",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "Unreadable",
    "from_manifest",
    "of_result",
    "to_manifest",
]

#: Where what is no error comes from.
_MODULES = {
    "podsched.api.manifest": ("from_manifest", "to_manifest"),
    "podsched.api.objects": ("Node", "Pod", "PodDisruptionBudget", "PriorityClass"),
    "podsched.serve.client.api_client": ("ApiClient", "Listing"),
    "podsched.serve.client.channels": ("ClientOptions",),
    "podsched.serve.client.object_watch": ("Change", "ChangeType"),
    "podsched.serve.client.sync": ("Client",),
}
_SOURCES = dict.fromkeys(__all__, "podsched.serve.client.errors") | {
    name: module for module, names in _MODULES.items() for name in names
}


def __getattr__(name: str) -> object:
    """Import what ``__all__`` names when it is first used: the command must not wait for gRPC."""
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_SOURCES[name]), name)
