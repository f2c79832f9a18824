"""The table of roles in docs/security.md says what the roles in the code permit."""

from __future__ import annotations

from pathlib import Path

from podsched.api.kinds import KINDS
from podsched.serve.server.access.bootstrap_policy import CLUSTER_ROLES, bootstrap_policy
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rules import ALL, Rule, names_permitted
from podsched.serve.server.rest.reviews import REVIEWS

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
TEXT = PAGE.read_text()
#: Letters of the table, and the verbs that each stands for.
LETTERS = {
    "r": ("get", "list", "watch"),
    "c": ("create",),
    "u": ("patch", "update"),
    "d": ("delete",),
    "D": ("deletecollection",),
    "a": ("answer",),
}
#: Not those of paths alone.
ROLES = [
    name
    for name, rules in CLUSTER_ROLES.items()
    if name != "cluster-admin" and any(groups for _, groups, _ in rules)
]


def resources() -> list[tuple[str, str]]:
    """Group and name of every resource that a role speaks of, and of every other kind."""
    named = {
        (group, resource)
        for rules in CLUSTER_ROLES.values()
        for _, groups, items in rules
        for group in groups
        for resource in items
        if resource != ALL
    }
    groups = {kind.plural: kind.group for kind in KINDS.values()}
    reviews = {plural: group for (group, _), kinds in REVIEWS.items() for plural in kinds}
    right = {(g, r) for g, r in named if (groups | reviews)[r.partition("/")[0]] == g}
    return sorted(right | {(group, plural) for plural, group in groups.items()})


def cell(name: str, group: str, resource: str) -> str:
    """The letters of what a role permits on a resource."""
    rules = [
        Rule(*map(frozenset, (verbs, groups, items, (), ())))
        for verbs, groups, items in CLUSTER_ROLES[name]
    ]

    def permits(verb: str) -> bool:
        return names_permitted(rules, verb, group, resource) is None

    letters = ""
    for letter, verbs in LETTERS.items():
        if all(permits(verb) for verb in verbs):
            letters += letter
        elif permits(verbs[0]):
            letters += "g" if letter == "r" else "?"
    return letters


def table() -> list[str]:
    """The table as it has to be."""
    lines = [f"| resource | {' | '.join(f'`{role}`' for role in ROLES)} |"]
    lines.append(f"|{' --- |' * (len(ROLES) + 1)}")
    for group, resource in resources():
        cells = [cell(role, group, resource) for role in ROLES]
        if any(cells):
            lines.append(f"| {resource} | {' | '.join(cells)} |")
    return lines


def page() -> str:
    """The page with the table as it has to be."""
    before, heading, rest = TEXT.partition("| resource |")
    old = (heading + rest).partition("\n\n")[0]
    return before + (heading + rest).replace(old, "\n".join(table()), 1)


def test_the_table_of_roles_is_what_the_code_says() -> None:
    assert page().splitlines() == TEXT.splitlines(), "make roles writes it"


def test_the_kinds_that_only_administrators_write_and_read_are_named() -> None:
    silent = [
        resource
        for group, resource in resources()
        if not any(cell(role, group, resource) for role in ROLES)
    ]
    for resource in silent:
        assert f"`{resource}`" in TEXT, resource


def test_no_built_in_binding_grants_anything_to_all_who_are_authenticated() -> None:
    items = bootstrap_policy()
    kinds = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    of_kind = [[i for i in items if type(i).__name__ == kind] for kind in kinds]
    policy = Policy(*of_kind)  # type: ignore[arg-type]
    assert policy.grants("anybody", ["system:authenticated"]) == ((), {})


if __name__ == "__main__":
    PAGE.write_text(page())
