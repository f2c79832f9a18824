"""Which priority level a caller's calls belong to."""

from __future__ import annotations

import pytest

from podsched.serve.server.access.identity import UNSECURED, Authentication, Identity
from podsched.serve.server.fairness.levels import promoted_schema, schema_of


def someone(user: str, *groups: str) -> Identity:
    return Identity(user, frozenset({*groups, "system:authenticated"}), Authentication.CERTIFICATE)


@pytest.mark.parametrize(
    ("identity", "schema", "level"),
    [
        (someone("admin", "system:masters"), "exempt", "exempt"),
        (someone("system:kube-scheduler"), "kube-scheduler", "workload-high"),
        (someone("system:node:a", "system:nodes"), "system-nodes", "system"),
        (someone("system:serviceaccount:a:b", "system:serviceaccounts"), "service-accounts",
         "workload-low"),
        (someone("alice", "dev"), "global-default", "global-default"),
        (UNSECURED, "global-default", "global-default"),
    ],
)  # fmt: skip
def test_callers_are_sorted_by_user_and_group(identity: Identity, schema: str, level: str) -> None:
    found = schema_of(identity)
    assert (found.name, found.level.name) == (schema, level)


def test_without_authentication_a_connection_that_binds_is_a_schedulers() -> None:
    schema = promoted_schema("BindPods")
    assert schema is not None and schema.level.name == "workload-high"
    assert promoted_schema("CreatePods") is None
