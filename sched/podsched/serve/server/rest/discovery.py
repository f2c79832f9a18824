"""Answers discovery: lists the served resources, by group or aggregated in one document."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from podsched import __version__
from podsched.api.kinds import KINDS
from podsched.serve.server.rest import visibility
from podsched.serve.server.rest.failures import check_method, no_such_resource
from podsched.serve.server.rest.media import Form, form_of
from podsched.serve.server.rest.messages import JSON, Answer, Request, encode
from podsched.serve.server.rest.resource_metrics import METRICS, METRICS_KINDS, METRICS_VERSION
from podsched.serve.server.rest.resources import GROUP_NAMES, GROUPS, Subresource
from podsched.serve.server.rest.reviews import NAMESPACED_REVIEWS, REVIEWS

#: All groups, those without stored objects included.
ALL_GROUPS: Final = (*GROUP_NAMES, METRICS, *(group for group, _ in REVIEWS), visibility.GROUP)
_SERVED: Final = (
    *GROUPS,
    (METRICS, METRICS_VERSION),
    *REVIEWS,
    (visibility.GROUP, visibility.VERSION),
)
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


def discovery_answer(request: Request, segments: Sequence[str]) -> Answer | None:
    """Answer a discovery path; None for any other path. Raises RestError."""
    answer = _answer(request, segments)
    if answer is not None:
        check_method(request, "GET", "HEAD")
    return answer


def _answer(request: Request, segments: Sequence[str]) -> Answer | None:
    """Answer /api, /apis and the paths of groups and versions; None for any other path."""
    accept = request.headers.get("accept")
    if segments == ["api"]:
        if form_of(accept, Form.DISCOVERY) is Form.DISCOVERY:
            return Answer(_aggregated([""]), content_type=_AGGREGATED)
        address = {"clientCIDR": "0.0.0.0/0", "serverAddress": request.headers.get("host", "")}
        versions = {"versions": ["v1"], "serverAddressByClientCIDRs": [address]}
        return Answer(encode({"kind": "APIVersions", **versions}))
    if segments == ["apis"]:
        if form_of(accept, Form.DISCOVERY) is Form.DISCOVERY:
            return Answer(_aggregated(ALL_GROUPS), content_type=_AGGREGATED)
        groups = [_group(name) for name in ALL_GROUPS]
        return Answer(encode({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
    if segments[0] == "api" and len(segments) == 2:
        return _resources("", segments[1])
    if segments[0] == "apis" and segments[1] in ALL_GROUPS:
        if len(segments) == 2:
            shown = {"kind": "APIGroup", "apiVersion": "v1", **_group(segments[1])}
            return Answer(encode(shown))
        if len(segments) == 3:
            return _resources(segments[1], segments[2])
    return None


class _Listed(NamedTuple):
    """A resource as both forms of discovery list it."""

    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: Sequence[str] = ("create",)
    short_names: Sequence[str] = ()
    categories: Sequence[str] = ()
    subresources: Sequence[Subresource] = ()


def _listed(group: str, version: str) -> Iterator[_Listed]:
    for plural, name in REVIEWS.get((group, version), {}).items():
        yield _Listed(plural, name.lower(), name, name in NAMESPACED_REVIEWS)
    if (group, version) == (visibility.GROUP, visibility.VERSION):
        pending = Subresource(visibility.SUBRESOURCE, ("get",), kind=visibility.SUMMARY)
        for plural, name in visibility.QUEUES.items():
            is_namespaced = KINDS[name].namespaced
            yield _Listed(plural, name.lower(), name, is_namespaced, (), subresources=(pending,))
    if (group, version) == (METRICS, METRICS_VERSION):
        for plural, name in METRICS_KINDS.items():
            yield _Listed(plural, "", name, plural == "pods", ("get", "list"))
    resources = GROUPS.get((group, version), {})
    if "pods" in resources:
        yield _Listed("bindings", "binding", "Binding", True)
    for found in resources.values():
        kind, below = found.kind, tuple(found.subresources.values())
        names = (found.plural, found.singular, kind.name)
        categories = ("all",) if kind.in_all else ()
        yield _Listed(*names, kind.namespaced, kind.verbs, kind.short_names, categories, below)


def _versions(name: str) -> list[str]:
    return [version for group, version in _SERVED if group == name]


def _group(name: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in _versions(name)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(group: str, version: str) -> Answer:
    listed = [shown for found in _listed(group, version) for shown in _shown(found)]
    if not listed:
        raise no_such_resource()
    head = {"kind": "APIResourceList", **({"apiVersion": "v1"} if group else {})}
    shown = f"{group}/{version}" if group else version
    return Answer(encode({**head, "groupVersion": shown, "resources": listed}))


def _shown(found: _Listed) -> Iterator[dict[str, Any]]:
    """Yield the ``APIResource`` of a resource and those of its subresources."""
    yield {
        "name": found.plural,
        "singularName": found.singular,
        "namespaced": found.namespaced,
        "kind": found.kind,
        "verbs": list(found.verbs),
        **_names(found),
    }
    for sub in found.subresources:
        yield {
            "name": f"{found.plural}/{sub.name}",
            "singularName": "",
            "namespaced": found.namespaced,
            **({"group": sub.group, "version": sub.version} if sub.group else {}),
            "kind": sub.kind or found.kind,
            "verbs": list(sub.verbs),
        }


def _names(found: _Listed) -> dict[str, list[str]]:
    names = {"shortNames": list(found.short_names), "categories": list(found.categories)}
    return {key: value for key, value in names.items() if value}


def _aggregated(groups: Sequence[str]) -> bytes:
    """Return the serialized ``APIGroupDiscoveryList`` of some groups."""
    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_aggregate(found) for found in _listed(group, version)],
                    "freshness": "Current",
                }
                for version in _versions(group)
            ],
        }
        for group in groups
    ]
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
    return encode({**head, "metadata": {}, "items": items})


def _aggregate(found: _Listed) -> dict[str, Any]:
    """Return the ``APIResourceDiscovery`` of a resource."""
    subresources = [
        {
            "subresource": sub.name,
            "responseKind": _kind(sub.kind or found.kind, sub.group, sub.version),
            "verbs": list(sub.verbs),
        }
        for sub in found.subresources
    ]
    return {
        "resource": found.plural,
        "responseKind": _kind(found.kind),
        "scope": "Namespaced" if found.namespaced else "Cluster",
        "singularResource": found.singular,
        "verbs": list(found.verbs),
        **_names(found),
        **({"subresources": subresources} if subresources else {}),
    }


def _kind(name: str, group: str = "", version: str = "") -> dict[str, str]:
    return {"group": group, "version": version, "kind": name}
