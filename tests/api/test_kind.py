"""What an entry of the register of kinds says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from podsched.api.kind import VERBS, Access, Kind, function
from podsched.api.kinds import KINDS

FUNCTIONS = ("defaults", "name_rule", "check", "check_update", "check_status")


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_functions_that_an_entry_names_exist(kind: Kind) -> None:
    named = [entry for entry in FUNCTIONS if getattr(kind, entry)]
    assert all(callable(function(getattr(kind, entry))) for entry in named)
    assert kind.check_status == "" or kind.has_status


def test_an_entry_names_no_function_where_nothing_is_to_be_done() -> None:
    assert function(KINDS["LimitRange"].check_update) is None


def test_the_register_imports_neither_validation_nor_defaulting() -> None:
    code = "import sys, podsched.api.kinds; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    rules = ("podsched.api.validation", "podsched.api.defaulting", "podsched.api.codec")
    assert [name for name in modules.split() if name.startswith(rules)] == []


def test_namespaces_are_deleted_one_by_one() -> None:
    assert set(VERBS) - set(KINDS["Namespace"].verbs) == {"deletecollection"}


def test_nothing_without_a_namespace_but_namespaces_is_of_a_role_of_users() -> None:
    outside = [kind.name for kind in KINDS.values() if kind.role and not kind.namespaced]
    assert outside == ["Namespace"]
    assert KINDS["Namespace"].role is Access.VIEW
