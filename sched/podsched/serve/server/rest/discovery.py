"""Discovery: the resources served, group by group or aggregated in one document."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

from podsched import __version__
from podsched.serve.server.rest.failures import method_not_allowed, no_such_resource
from podsched.serve.server.rest.media import Form, form_of
from podsched.serve.server.rest.messages import JSON, Answer, Request, encode
from podsched.serve.server.rest.resources import GROUP_NAMES, GROUPS, Resource, Subresource
from podsched.serve.server.rest.reviews import REVIEWS

_NAMES: Final = (*GROUP_NAMES, *(group for group, _ in REVIEWS))
_AGGREGATED: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

#: The version of Kubernetes whose API this is; clients compare it with their own.
MAJOR, MINOR = "1", "36"


def version() -> Answer:
    """Answer /version."""
    body = {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": f"v{MAJOR}.{MINOR}.0+podsched-{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return Answer(encode(body))


def discovered(request: Request, segments: Sequence[str]) -> Answer | None:
    """Answer a discovery path; None for any other path. Raises RestError."""
    answer = _answer(request, segments)
    if answer is not None and request.method not in ("GET", "HEAD"):
        raise method_not_allowed()
    return answer


def _answer(request: Request, segments: Sequence[str]) -> Answer | None:
    accept = request.headers.get("accept")
    if segments == ["api"]:
        if form_of(accept, Form.DISCOVERY) is Form.DISCOVERY:
            return Answer(_aggregated([""]), content_type=_AGGREGATED)
        return Answer(encode(_core_versions(request)))
    if segments == ["apis"]:
        if form_of(accept, Form.DISCOVERY) is Form.DISCOVERY:
            return Answer(_aggregated(_NAMES), content_type=_AGGREGATED)
        groups = [_group(name) for name in _NAMES]
        return Answer(encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
    if segments[0] == "api" and len(segments) == 2:
        return _resources("", segments[1])
    if segments[0] == "apis" and segments[1] in _NAMES:
        if len(segments) == 2:
            shown = {"kind": "APIGroup", "apiVersion": "v1", **_group(segments[1])}
            return Answer(encode(shown))
        if len(segments) == 3:
            return _resources(segments[1], segments[2])
    return None


def _core_versions(request: Request) -> dict[str, Any]:
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [address],
    }


def _group(name: str) -> dict[str, Any]:
    versions = [
        {"groupVersion": f"{group}/{version}", "version": version}
        for group, version in (*GROUPS, *REVIEWS)
        if group == name
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Answer:
    resources, reviews = GROUPS.get((group, version), {}), REVIEWS.get((group, version), {})
    if not resources and not reviews:
        raise no_such_resource()
    listed: list[dict[str, Any]] = [_review(plural, kind) for plural, kind in reviews.items()]
    listed += [_BINDINGS] if "pods" in resources else []
    for resource in resources.values():
        listed.append(_resource(resource))
        listed += [_subresource(resource, sub) for sub in resource.subresources.values()]
    head = {"kind": "APIResourceList"}
    if group:
        head["apiVersion"] = "v1"
    shown = f"{group}/{version}" if group else version
    return Answer(encode({**head, "groupVersion": shown, "resources": listed}))


def _review(plural: str, kind: str) -> dict[str, Any]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": False,
        "kind": kind,
        "verbs": ["create"],
    }


_BINDINGS: Final[dict[str, Any]] = {
    "name": "bindings",
    "singularName": "binding",
    "namespaced": True,
    "kind": "Binding",
    "verbs": ["create"],
}


def _resource(resource: Resource) -> dict[str, Any]:
    return _without_empty(
        {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.kind.namespaced,
            "kind": resource.kind.name,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.kind.short_names),
            "categories": list(resource.categories),
        }
    )


def _subresource(resource: Resource, sub: Subresource) -> dict[str, Any]:
    return {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.kind.namespaced,
        **({"group": sub.group, "version": sub.version} if sub.group else {}),
        "kind": sub.kind or resource.kind.name,
        "verbs": list(sub.verbs),
    }


def _without_empty(found: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if value != []}


# ------------------------------------------------------------------ aggregated


def _aggregated(groups: Sequence[str]) -> bytes:
    items = []
    for name in groups:
        versions = [
            {
                "version": version,
                "resources": _aggregated_resources(resources),
                "freshness": "Current",
            }
            for (group, version), resources in GROUPS.items()
            if group == name
        ]
        versions += [
            {
                "version": version,
                "resources": [_aggregated_review(*item) for item in reviews.items()],
                "freshness": "Current",
            }
            for (group, version), reviews in REVIEWS.items()
            if group == name
        ]
        items.append({"metadata": {"name": name} if name else {}, "versions": versions})
    return encode(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }
    )


def _aggregated_resources(resources: Mapping[str, Resource]) -> list[dict[str, Any]]:
    found = []
    if "pods" in resources:
        found.append(
            {
                "resource": "bindings",
                "responseKind": _kind("Binding"),
                "scope": "Namespaced",
                "singularResource": "binding",
                "verbs": ["create"],
            }
        )
    return found + [_aggregated_resource(resource) for resource in resources.values()]


def _aggregated_review(plural: str, kind: str) -> dict[str, Any]:
    return {
        "resource": plural,
        "responseKind": _kind(kind),
        "scope": "Cluster",
        "singularResource": kind.lower(),
        "verbs": ["create"],
    }


def _aggregated_resource(resource: Resource) -> dict[str, Any]:
    name = resource.kind.name
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": _kind(sub.kind or name, sub.group, sub.version),
            "verbs": list(sub.verbs),
        }
        for sub in resource.subresources.values()
    ]
    return _without_empty(
        {
            "resource": resource.plural,
            "responseKind": _kind(name),
            "scope": "Namespaced" if resource.kind.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
            "shortNames": list(resource.kind.short_names),
            "categories": list(resource.categories),
            "subresources": subresources,
        }
    )


def _kind(name: str, group: str = "", version: str = "") -> dict[str, str]:
    return {"group": group, "version": version, "kind": name}
