"""Audit policies: which calls are audited, by ``audit.k8s.io/v1`` Policy files. Pure.

The first rule that matches a call sets its level; a call that matches none is not audited.

    None       not at all
    Metadata   who, what, when, and how it ended
    Request    that, and the request's content

Levels are Kubernetes' without ``RequestResponse``. ``omitStages`` is accepted and has no effect:
there is one stage, ``ResponseComplete``. Rules with ``nonResourceURLs`` match nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from podsched.api.manifest import ManifestError, load_documents
from podsched.config.errors import ConfigError, ErrorType, FieldError

API_VERSION: Final = "audit.k8s.io/v1"


class Level(StrEnum):
    """How much of a call is written."""

    NONE = "None"
    METADATA = "Metadata"
    REQUEST = "Request"


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a call that rules match. Names are "" if a call has none or several."""

    user: str
    groups: frozenset[str]
    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def full_resource(self) -> str:
        """The resource with its subresource: "pods/binding"."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Resources of one API group; empty: all."""

    group: str
    resources: frozenset[str]
    names: frozenset[str]

    def matches(self, call: Attributes) -> bool:
        """Return whether a call concerns one of these resources."""
        if self.group != call.group or (self.names and call.name not in self.names):
            return False
        wanted = (call.full_resource, "*", f"{call.resource}/*", f"*/{call.subresource}")
        return not self.resources or not self.resources.isdisjoint(wanted)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule; an empty condition matches every call."""

    level: Level
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    verbs: frozenset[str] = frozenset()
    resources: tuple[ResourceRule, ...] = ()
    namespaces: frozenset[str] = frozenset()
    matches_no_call: bool = False

    def matches(self, call: Attributes) -> bool:
        """Return whether a call meets all conditions."""
        return not self.matches_no_call and (
            (not self.users or call.user in self.users)
            and (not self.groups or not self.groups.isdisjoint(call.groups))
            and (not self.verbs or call.verb in self.verbs or "*" in self.verbs)
            and (not self.namespaces or call.namespace in self.namespaces)
            and (not self.resources or any(rule.matches(call) for rule in self.resources))
        )


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """The rules, in order."""

    rules: tuple[Rule, ...]

    def level_of(self, call: Attributes) -> Level:
        """Return the level of the first rule that matches."""
        for rule in self.rules:
            if rule.matches(call):
                return rule.level
        return Level.NONE


#: The policy without a file: metadata of every call.
EVERYTHING: Final = AuditPolicy((Rule(Level.METADATA),))


def parse_policy(text: str, source: str = "") -> AuditPolicy:
    """Parse a policy in YAML or JSON. Raises ConfigError with all errors."""
    try:
        documents = load_documents(text)
    except ManifestError as error:
        raise ConfigError([FieldError("", None, str(error))], source) from None
    if len(documents) != 1:
        reason = f"one Policy is expected, the file has {len(documents)} documents"
        raise ConfigError([FieldError("", None, reason)], source)
    reader = _Reader()
    policy = reader.policy(documents[0])
    if reader.found:
        raise ConfigError(reader.found, source)
    return policy


_IGNORED = frozenset({"metadata", "omitStages", "omitManagedFields"})
_RULE_FIELDS = frozenset(
    {"level", "users", "userGroups", "verbs", "resources", "namespaces", "nonResourceURLs"}
)


class _Reader:
    """Reads a policy and collects all errors."""

    def __init__(self) -> None:
        self.found: list[FieldError] = []

    def policy(self, document: Mapping[str, Any]) -> AuditPolicy:
        for field, wanted in (("apiVersion", API_VERSION), ("kind", "Policy")):
            if document.get(field) != wanted:
                self._unsupported(field, document.get(field), [wanted])
        self._known(document, {"apiVersion", "kind", "rules"} | _IGNORED, "")
        rules = document.get("rules")
        if not isinstance(rules, list) or not rules:
            self.found.append(FieldError("rules", rules, "", ErrorType.REQUIRED))
            return AuditPolicy(())
        return AuditPolicy(
            tuple(self._rule(rule, path) for rule, path in self._mappings(rules, "rules"))
        )

    def _rule(self, rule: Mapping[str, Any], path: str) -> Rule:
        self._known(rule, _RULE_FIELDS | _IGNORED, path)
        resources = rule.get("resources") or []
        if not isinstance(resources, list):
            self._wrong(f"{path}.resources", resources, "must be a list")
            resources = []
        return Rule(
            level=self._level(rule.get("level"), f"{path}.level"),
            users=self._names(rule, "users", path),
            groups=self._names(rule, "userGroups", path),
            verbs=self._names(rule, "verbs", path),
            namespaces=self._names(rule, "namespaces", path),
            resources=tuple(
                self._resource(item, where)
                for item, where in self._mappings(resources, f"{path}.resources")
            ),
            matches_no_call=bool(self._names(rule, "nonResourceURLs", path)),
        )

    def _resource(self, item: Mapping[str, Any], path: str) -> ResourceRule:
        self._known(item, {"group", "resources", "resourceNames"}, path)
        group = item.get("group", "")
        if not isinstance(group, str):
            self._wrong(f"{path}.group", group, "must be a string")
            group = ""
        names = self._names(item, "resourceNames", path)
        resources = self._names(item, "resources", path)
        if names and not resources:
            self._wrong(f"{path}.resourceNames", sorted(names), "using them needs resources")
        return ResourceRule(group, resources, names)

    def _level(self, value: Any, path: str) -> Level:
        if value in list(Level):
            return Level(value)
        if value is None:
            self.found.append(FieldError(path, value, "", ErrorType.REQUIRED))
        else:
            self._unsupported(path, value, list(Level))
        return Level.NONE

    def _names(self, owner: Mapping[str, Any], field: str, path: str) -> frozenset[str]:
        value = owner.get(field)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._wrong(f"{path}.{field}", value, "must be a list of strings")
            return frozenset()
        return frozenset(value)

    def _mappings(self, items: Sequence[Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
        for index, item in enumerate(items):
            where = f"{path}[{index}]"
            if isinstance(item, Mapping):
                yield item, where
            else:
                self._wrong(where, item, "must be an object")

    def _known(
        self, owner: Mapping[str, Any], fields: set[str] | frozenset[str], path: str
    ) -> None:
        for field in owner:
            if field not in fields:
                where = f"{path}.{field}" if path else str(field)
                self.found.append(FieldError(where, None, "", ErrorType.UNKNOWN_FIELD))

    def _wrong(self, path: str, value: Any, reason: str) -> None:
        self.found.append(FieldError(path, value, reason))

    def _unsupported(self, path: str, value: Any, supported: Sequence[str]) -> None:
        named = ", ".join(f'"{each}"' for each in supported)
        self.found.append(
            FieldError(path, value, f"supported values: {named}", ErrorType.NOT_SUPPORTED)
        )
