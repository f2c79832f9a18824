"""What an entry of the register of kinds says."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

from podsched.api import names
from podsched.api.kind import VERBS, Access, Kind
from podsched.api.kinds import KINDS
from podsched.api.validation import validate


def rules_in(kind: Kind) -> set[str]:
    module = import_module(f"podsched.api.validation.{kind.rules}")
    own = f"validate_{kind.oneof_field}"
    changes = ("", "_creation", "_update", "_replacement", "_status", "_status_update")
    return {f"{own}{change}" for change in changes} & vars(module).keys()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_the_rules_that_an_entry_names_exist(kind: Kind) -> None:
    assert callable(getattr(names, kind.name_rule))
    assert not kind.rules or f"validate_{kind.oneof_field}" in rules_in(kind)


def test_each_function_with_the_rules_of_a_kind_is_that_of_its_entry() -> None:
    """Else a function with a misspelt name would never be called."""
    named = {rule for kind in KINDS.values() if kind.rules for rule in rules_in(kind)}
    kinds = "|".join(kind.oneof_field for kind in KINDS.values())
    found = {
        name
        for module in {kind.rules for kind in KINDS.values() if kind.rules}
        for name, rule in vars(import_module(f"podsched.api.validation.{module}")).items()
        if name.startswith("validate_") and rule.__module__.endswith(module)
    }
    assert {name for name in found if re.match(f"validate_({kinds})", name)} <= named


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_fields_with_default_values_exist(kind: Kind) -> None:
    for path, value in kind.defaults.items():
        message = kind.new()
        *above, name = path.split(".")
        for part in above:
            message = getattr(message, part)
        setattr(message, name, value)
        field = message.DESCRIPTOR.fields_by_name[name]
        assert field.has_presence or isinstance(value, str)


def test_a_kind_without_rules_for_updates_can_be_updated() -> None:
    item = KINDS["LimitRange"].new()
    item.metadata.name, item.metadata.namespace = "a", "b"
    assert validate("LimitRange", item, item) == []


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
