"""Maps the path and HTTP method of a request to a resource and a verb.

/api/v1/[namespaces/NAMESPACE/]PLURAL[/NAME[/SUBRESOURCE]]
/apis/GROUP/VERSION/[namespaces/NAMESPACE/]PLURAL[/NAME[/SUBRESOURCE]]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from podsched.serve.server.methods import call_of
from podsched.serve.server.rest.failures import check_method, method_not_allowed, no_such_resource
from podsched.serve.server.rest.messages import Request
from podsched.serve.server.rest.options import flag
from podsched.serve.server.rest.resources import GROUPS, Resource

_OF_COLLECTIONS: Final = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}
_OF_OBJECTS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_SUBRESOURCES: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "POST": "create"}
_OF_PROXIES: Final = {**_OF_SUBRESOURCES, "DELETE": "delete", "HEAD": "get"}
_PROXY: Final = "proxy"
_BINDINGS: Final = "bindings"


@dataclass(frozen=True, slots=True)
class Target:
    """The resource, object and verb of a request."""

    resource: Resource
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def call(self) -> str:
        """The gRPC method that does the same."""
        return call_of(self.verb, self.subresource)


def group_of(segments: Sequence[str]) -> tuple[str, str, Sequence[str]] | None:
    """Return group, version and the remaining segments; None if a path has no resource."""
    if segments[0] == "api" and len(segments) > 2:
        return "", segments[1], segments[2:]
    if segments[0] == "apis" and len(segments) > 3:
        return segments[1], segments[2], segments[3:]
    return None


def target_of(request: Request, group: str, version: str, rest: Sequence[str]) -> Target:
    """Return the target of a request below a group and version. Raises RestError."""
    resources = GROUPS.get((group, version), {})
    if rest[0] == "watch" and len(rest) > 1:
        # Kubernetes' deprecated path of a watch.
        found = _target_of(request, resources, rest[1:])
        if found.verb != "list":
            raise no_such_resource()
        return replace(found, verb="watch")
    return _target_of(request, resources, rest)


def _target_of(request: Request, resources: Mapping[str, Resource], rest: Sequence[str]) -> Target:
    """Return what a path below a group's version names; ``rest`` are its remaining segments."""
    namespace = ""
    # /namespaces/NAME/status is a subresource of the namespace; /namespaces/NAME/pods is not.
    if rest[0] == "namespaces" and len(rest) > 2 and (rest[2] in resources or rest[2] == _BINDINGS):
        namespace, rest = rest[1], rest[2:]
    resource = resources.get(rest[0])
    if resource is None and rest[0] == _BINDINGS and "pods" in resources:
        return _bindings(request, resources["pods"], namespace, rest)
    if (
        resource is None
        or (len(rest) > 3 and rest[2] != _PROXY)
        or (namespace and not resource.kind.namespaced)
    ):
        raise no_such_resource()
    if len(rest) == 1:
        return _collection(request, resource, namespace)
    if resource.kind.namespaced and not namespace:
        raise no_such_resource()
    if len(rest) == 2:
        verb = _verb(_OF_OBJECTS, request, resource.kind.verbs)
        return Target(resource, verb, namespace, rest[1])
    subresource = resource.subresources.get(rest[2])
    if subresource is None:
        raise no_such_resource()
    verbs = _OF_PROXIES if rest[2] == _PROXY else _OF_SUBRESOURCES
    verb = _verb(verbs, request, subresource.verbs)
    return Target(resource, verb, namespace, rest[1], rest[2])


def _bindings(request: Request, pods: Resource, namespace: str, rest: Sequence[str]) -> Target:
    """Return the target of the deprecated bindings path, where the body names the pod."""
    if len(rest) > 1 or not namespace:
        raise no_such_resource()
    check_method(request, "POST")
    return Target(pods, "create", namespace, "", "binding")


def _collection(request: Request, resource: Resource, namespace: str) -> Target:
    verb = _verb(_OF_COLLECTIONS, request, resource.kind.verbs)
    if resource.kind.namespaced and not namespace and verb != "list":
        raise method_not_allowed()
    if verb == "list" and flag(request.query, "watch"):
        verb = "watch"
    return Target(resource, verb, namespace)


def _verb(verbs: dict[str, str], request: Request, served: Sequence[str]) -> str:
    verb = verbs.get(request.method)
    if verb is None or verb not in served:
        raise method_not_allowed()
    return verb
