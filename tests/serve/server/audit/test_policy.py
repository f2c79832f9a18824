"""Audit policies: which rule matches, and what is wrong with a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.config.errors import ConfigError
from podsched.serve.server.audit.events import Attributes, Level
from podsched.serve.server.audit.policy import parse_policy

POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: [noisy]
- level: Metadata
  userGroups: [dev]
  verbs: [delete]
- level: Request
  resources:
  - group: ""
    resources: [pods/binding, nodes]
- level: None
  namespaces: [kube-system]
- level: Metadata
  resources:
  - group: rbac.authorization.k8s.io
  - group: apps
    resources: [replicasets]
    resourceNames: [web]
"""
POLICY_FILE = Path(__file__).parents[4] / "deploy" / "audit-policy.yaml"


def call(user: str = "alice", verb: str = "get", **more: str) -> Attributes:
    return Attributes(user, frozenset({"dev"}), verb, **more)


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (call("noisy", "delete"), Level.NONE),
        (call(verb="delete"), Level.METADATA),
        (call(resource="pods", subresource="binding"), Level.REQUEST),
        (call(resource="pods"), Level.NONE),
        (call(resource="nodes", namespace="kube-system"), Level.REQUEST),
        (call(group="rbac.authorization.k8s.io", resource="roles"), Level.METADATA),
        (
            call(group="rbac.authorization.k8s.io", resource="roles", namespace="kube-system"),
            Level.NONE,
        ),
        (call(group="apps", resource="replicasets", name="web"), Level.METADATA),
        (call(group="apps", resource="replicasets", name="other"), Level.NONE),
    ],
)
def test_the_first_rule_that_matches_decides(asked: Attributes, level: Level) -> None:
    assert parse_policy(POLICY).level_of(asked) is level


def test_all_mistakes_are_named_at_once_with_their_paths() -> None:
    with pytest.raises(ConfigError) as wrong:
        parse_policy(
            """
apiVersion: audit.k8s.io/v2
kind: Policy
rules:
- level: RequestResponse
  user: [alice]
- verbs: get
- level: None
  resources: [pods, {group: 1, resourceNames: [a]}]
""",
            "policy.yaml",
        )
    text = str(wrong.value)
    for expected in (
        "policy.yaml: apiVersion: Unsupported value",
        'rules[0].level: Unsupported value: "RequestResponse": supported values: "None"',
        "rules[0].user: Unknown field",
        "rules[1].level: Required value",
        "rules[1].verbs: Invalid value",
        "rules[2].resources[0]: Invalid value",
        "rules[2].resources[1].group: Invalid value",
        "rules[2].resources[1].resourceNames: Invalid value",
    ):
        assert expected in text


@pytest.mark.parametrize("text", ["", "a: [", "kind: Policy\n---\nkind: Policy\n"])
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_policy(text)


def test_the_policy_that_is_deployed_writes_changes_of_users_and_no_heartbeats() -> None:
    policy = parse_policy(POLICY_FILE.read_text())
    node = Attributes(
        "system:node:a", frozenset({"system:nodes"}), "patch", "coordination.k8s.io", "leases"
    )
    assert policy.level_of(node) is Level.NONE
    assert policy.level_of(call(verb="create", resource="pods")) is Level.METADATA
    roles = call(verb="create", group="rbac.authorization.k8s.io", resource="roles")
    assert policy.level_of(roles) is Level.REQUEST
    assert policy.level_of(call(verb="list", resource="pods")) is Level.NONE
