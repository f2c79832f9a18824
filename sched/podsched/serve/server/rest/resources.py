"""Lists the resources of the REST API, derived from ``api.kinds``.

Every kind registered there is served, with its subresources. Events are also served in a second
group, events.k8s.io, and kinds of queues in a former version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from podsched.api.former_versions import (
    QUEUES_GROUP,
    QUEUES_VERSION,
    hide_former_queue,
    show_former_queue,
)
from podsched.api.kind import CHANGE
from podsched.api.kinds import KINDS, Kind
from podsched.serve.server.methods import PASSED_ON

Convert = Callable[[dict[str, Any]], dict[str, Any]]


def _unchanged(content: dict[str, Any]) -> dict[str, Any]:
    return content


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource; group, version and kind are set where they differ from the resource's."""

    name: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind served in one group and version.

    show, hide: convert from the stored object to this group's form, and back.
    """

    kind: Kind
    group: str
    version: str
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    show: Convert = _unchanged
    hide: Convert = _unchanged

    @property
    def plural(self) -> str:
        """The resource's name in paths."""
        return self.kind.plural

    @property
    def api_version(self) -> str:
        """Group and version, as in manifests."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The resource's singular name, for messages and commands."""
        return self.kind.name.lower()

    @property
    def list_kind(self) -> str:
        """The kind of the resource's lists."""
        return f"{self.kind.name}List"


#: The second group that serves events, with stricter validation.
EVENTS_GROUP: Final = "events.k8s.io"
_CHANGED: Final = ("get", *CHANGE)
_SUBRESOURCES: Final = {
    sub.name: sub
    for sub in (
        Subresource("approval", _CHANGED),
        Subresource("attach", PASSED_ON["attach"], kind="PodAttachOptions"),
        Subresource("binding", ("create",), kind="Binding"),
        Subresource("ephemeralcontainers", _CHANGED),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
        Subresource("exec", PASSED_ON["exec"], kind="PodExecOptions"),
        Subresource("finalize", ("update",)),
        Subresource("log", PASSED_ON["log"]),
        Subresource("portforward", PASSED_ON["portforward"], kind="PodPortForwardOptions"),
        Subresource("resize", _CHANGED),
        Subresource("scale", _CHANGED, "autoscaling", "v1", "Scale"),
        Subresource("status", _CHANGED),
        Subresource("token", ("create",), "authentication.k8s.io", "v1", "TokenRequest"),
    )
}


def _resource(kind: Kind) -> Resource:
    names = sorted((*kind.subresources, *(["status"] if kind.has_status else [])))
    group, _, version = kind.api_version.rpartition("/")
    proxy = Subresource("proxy", PASSED_ON["proxy"], kind=f"{kind.name}ProxyOptions")
    subresources = {name: {**_SUBRESOURCES, "proxy": proxy}[name] for name in names}
    return Resource(kind, group, version, subresources)


#: The fields of Events that events.k8s.io/v1 names otherwise than core/v1.
_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}


def _new_events(event: Kind) -> Resource:
    """Return the resource of events in events.k8s.io: the same objects with renamed fields."""

    def show(content: dict[str, Any]) -> dict[str, Any]:
        return {_NEW_NAMES.get(name, name): value for name, value in content.items()}

    def hide(content: dict[str, Any]) -> dict[str, Any]:
        return {OLD_NAMES.get(name, name): value for name, value in content.items()}

    return Resource(event, EVENTS_GROUP, "v1", show=show, hide=hide)


def _in_former_version(resource: Resource) -> Resource:
    """Return a resource of queues in the version before the one that is stored."""
    former = replace(resource, version=QUEUES_VERSION)
    if resource.kind.name != "ClusterQueue":
        return former
    return replace(former, show=show_former_queue, hide=hide_former_queue)


def _by_group() -> dict[tuple[str, str], dict[str, Resource]]:
    served = [_resource(kind) for kind in KINDS.values()]
    served.append(_new_events(KINDS["Event"]))
    served.sort(key=lambda r: (r.group, r.version, r.plural))
    # Last, because clients prefer the first version of a group.
    served += [_in_former_version(each) for each in served if each.group == QUEUES_GROUP]
    found: dict[tuple[str, str], dict[str, Resource]] = {}
    for resource in served:
        found.setdefault((resource.group, resource.version), {})[resource.plural] = resource
    return found


GROUPS: Final[Mapping[tuple[str, str], Mapping[str, Resource]]] = MappingProxyType(_by_group())
"""The resources by (group, version) and plural."""

GROUP_NAMES: Final = tuple(dict.fromkeys(group for group, _ in GROUPS if group))
