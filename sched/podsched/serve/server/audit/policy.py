"""Decides which calls are audited, by an ``audit.k8s.io/v1`` Policy file. Pure.

The first rule that matches a call sets its level; a call that matches none is not audited.

    None       not at all
    Metadata   who, what, when, and how it ended
    Request    that, and the request's content

Levels are Kubernetes' without ``RequestResponse``. ``omitStages`` is accepted and has no effect:
there is one stage, ``ResponseComplete``. Rules with ``nonResourceURLs`` match nothing.

Only servers with such a file import this module, and pydantic with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from podsched.api.field_errors import not_supported
from podsched.api.manifest import ManifestError, load_documents
from podsched.config.errors import ConfigError, FieldError, required
from podsched.config.model import ListOf, Model, decode, is_below
from podsched.serve.server.audit.events import API_VERSION, Attributes, Level


class ResourceRule(Model):
    """Resources of one API group; without any: all."""

    group: str = ""
    resources: ListOf[str] = ()
    resource_names: ListOf[str] = ()

    def matches(self, call: Attributes) -> bool:
        """Return whether a call concerns one of these resources."""
        if self.group != call.group or call.name not in (self.resource_names or (call.name,)):
            return False
        wanted = (call.full_resource, "*", f"{call.resource}/*", f"*/{call.subresource}")
        return not self.resources or any(name in self.resources for name in wanted)


class Rule(Model):
    """A rule; an empty condition matches every call."""

    level: str = ""
    users: ListOf[str] = ()
    user_groups: ListOf[str] = ()
    verbs: ListOf[str] = ()
    resources: ListOf[ResourceRule] = ()
    namespaces: ListOf[str] = ()
    non_resource_urls: ListOf[str] = Field((), alias="nonResourceURLs")
    omit_stages: Any = None
    omit_managed_fields: Any = None

    def matches(self, call: Attributes) -> bool:
        """Return whether a call meets all conditions."""
        return not self.non_resource_urls and (
            (not self.users or call.user in self.users)
            and (not self.user_groups or not call.groups.isdisjoint(self.user_groups))
            and (not self.verbs or call.verb in self.verbs or "*" in self.verbs)
            and (not self.namespaces or call.namespace in self.namespaces)
            and (not self.resources or any(rule.matches(call) for rule in self.resources))
        )


class AuditPolicy(Model):
    """The rules, in order."""

    api_version: str = ""
    kind: str = ""
    metadata: Any = None
    rules: ListOf[Rule] = ()
    omit_stages: Any = None
    omit_managed_fields: Any = None

    def level_of(self, call: Attributes) -> Level:
        """Return the level of the first rule that matches."""
        found = (rule.level for rule in self.rules if rule.matches(call))
        return Level(next(found, Level.NONE))


def parse_policy(text: str, source: str = "") -> AuditPolicy:
    """Parse a policy in YAML or JSON. Raises ConfigError with all errors."""
    try:
        documents = load_documents(text)
    except ManifestError as error:
        raise ConfigError([FieldError("", None, str(error))], source) from None
    if len(documents) != 1:
        reason = f"one Policy is expected, the file has {len(documents)} documents"
        raise ConfigError([FieldError("", None, reason)], source)
    found: list[FieldError] = []
    policy, bad = decode(AuditPolicy, documents[0], "", found)
    found += [error for error in _wrong_values(policy) if not is_below(error.path, bad)]
    if found:
        raise ConfigError(found, source)
    return policy


def _wrong_values(policy: AuditPolicy) -> Iterator[FieldError]:
    if policy.api_version != API_VERSION:
        yield not_supported("apiVersion", policy.api_version, [API_VERSION])
    if policy.kind != "Policy":
        yield not_supported("kind", policy.kind, ["Policy"])
    if not policy.rules:
        yield required("rules")
    for index, rule in enumerate(policy.rules):
        path = f"rules[{index}]"
        if not rule.level:
            yield required(f"{path}.level")
        elif rule.level not in list(Level):
            yield not_supported(f"{path}.level", rule.level, Level)
        for number, item in enumerate(rule.resources):
            if item.resource_names and not item.resources:
                where = f"{path}.resources[{number}].resourceNames"
                yield FieldError(where, [*item.resource_names], "using them needs resources")
