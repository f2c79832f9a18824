"""Evaluates rules of roles: the pure part of RBAC.

Sources: plugin/pkg/auth/authorizer/rbac and pkg/apis/rbac/v1/evaluation_helpers.go, v1.36. A
resource is its plural, "pods", or a subresource, "pods/status"; in a rule "*" stands for every
verb, group or resource, and "*/status" for that subresource of every resource.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from podsched.api.objects import PolicyRule

ALL: Final = "*"
#: Max single rights of a role whose author's rights are checked; cluster-admin has one, edit about
#: a hundred.
MAX_RIGHTS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled ``PolicyRule``; no ``names`` mean all objects."""

    verbs: frozenset[str]
    groups: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rule: PolicyRule) -> Rule:
        """Compile a rule."""
        return cls(
            frozenset(rule.verbs),
            frozenset(rule.api_groups),
            frozenset(rule.resources),
            frozenset(rule.resource_names),
            frozenset(rule.non_resource_urls),
        )

    def is_about(self, verb: str, group: str, resource: str) -> bool:
        """Return whether it permits a verb on at least some object of a resource."""
        return (
            (verb in self.verbs or ALL in self.verbs)
            and (group in self.groups or ALL in self.groups)
            and self._has(resource)
        )

    def _has(self, resource: str) -> bool:
        if resource in self.resources or ALL in self.resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in self.resources

    def _has_path(self, path: str) -> bool:
        """Return whether it is about a non-resource path; its own ones may end with "*"."""
        return any(
            url == path or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))
            for url in self.urls
        )

    def _rights(self) -> Iterator[Rule]:
        """Yield its single rights."""
        for verb, url in product(self.verbs, self.urls):
            yield Rule(frozenset({verb}), urls=frozenset({url}))
        names = self.names or (None,)
        for verb, group, resource, name in product(self.verbs, self.groups, self.resources, names):
            named = frozenset() if name is None else frozenset({name})
            yield Rule(frozenset({verb}), frozenset({group}), frozenset({resource}), named)

    @property
    def size(self) -> int:
        """The number of its single rights."""
        names = max(len(self.names), 1)
        resources = len(self.groups) * len(self.resources) * names
        return len(self.verbs) * (resources + len(self.urls))

    def _covers(self, right: Rule) -> bool:
        """Return whether it includes a single right."""
        if ALL not in self.verbs and not right.verbs <= self.verbs:
            return False
        if right.urls:
            return all(self._has_path(url) for url in right.urls)
        if ALL not in self.groups and not right.groups <= self.groups:
            return False
        if not all(self._has(resource) for resource in right.resources):
            return False
        return not self.names or (bool(right.names) and right.names <= self.names)

    def __str__(self) -> str:
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("ResourceNames", self.names),
            ("NonResourceURLs", self.urls),
            ("Verbs", self.verbs),
        )
        shown = (
            f"{name}:[{', '.join(f'{v!r}' for v in sorted(values))}]"
            for name, values in parts
            if values
        )
        return f"{{{', '.join(shown)}}}".replace("'", '"')


def names_permitted(
    rules: Iterable[Rule], verb: str, group: str, resource: str
) -> frozenset[str] | None:
    """Return the names of the objects that rules permit a verb on; None for all."""
    names: set[str] = set()
    for rule in rules:
        if rule.is_about(verb, group, resource):
            if not rule.names:
                return None
            names |= rule.names
    return frozenset(names)


def path_permitted(rules: Iterable[Rule], verb: str, path: str) -> bool:
    """Return whether rules permit a verb on a non-resource path."""
    return any((verb in rule.verbs or ALL in rule.verbs) and rule._has_path(path) for rule in rules)


def not_covered(owned: Sequence[Rule], asked: Iterable[Rule]) -> list[Rule] | None:
    """Return the single rights in ``asked`` that ``owned`` does not include.

    None if there are more than MAX_RIGHTS to check.
    """
    asked = [rule for rule in asked if rule not in owned]
    if sum(rule.size for rule in asked) > MAX_RIGHTS:
        return None
    return [
        right
        for rule in asked
        for right in rule._rights()
        if not any(own._covers(right) for own in owned)
    ]
