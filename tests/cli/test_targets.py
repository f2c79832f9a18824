"""Which objects a command is about."""

from __future__ import annotations

import pytest
import typer

from podsched.cli.targets import check_scope, complete_kinds, parse_targets, split_changes
from support.commands import Commands


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["pods"], [("Pod", "")]),
        (["po,no"], [("Pod", ""), ("Node", "")]),
        (["pods", "a", "b"], [("Pod", "a"), ("Pod", "b")]),
        (["pod/a", "node/n"], [("Pod", "a"), ("Node", "n")]),
    ],
)
def test_objects_are_named_as_with_kubectl(
    arguments: list[str], found: list[tuple[str, str]]
) -> None:
    assert [(target.kind.name, target.name) for target in parse_targets(arguments, "")] == found


@pytest.mark.parametrize(
    "arguments",
    [[], [","], ["pod/a", "b"], ["pod/"], ["/a"], ["pod/a/b"], ["pod", ""], ["pod", "", "b"]],
)
def test_what_cannot_be_understood_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        parse_targets(arguments, "")
    assert ended.value.exit_code == 2


def test_changes_follow_the_objects() -> None:
    arguments = ["clusterrole", "system:a", "tier=front", "old-"]
    assert split_changes(arguments) == (["clusterrole", "system:a"], ["tier=front", "old-"])
    assert split_changes(["n", "k:NoSchedule"], "=:") == (["n"], ["k:NoSchedule"])


@pytest.mark.parametrize("words", [("describe",), ("wait", "--for=delete")])
def test_a_selector_beside_names_is_a_usage_error(words: tuple[str, ...]) -> None:
    done = Commands("127.0.0.1:1")(*words, "pod/web", "-l", "app=db")
    assert (done.code, done.err) == (2, "error: names cannot be combined with -l\n")


def test_the_shell_completes_kinds_after_a_comma() -> None:
    assert complete_kinds("pods,no") == ["pods,nodes"]


def test_a_selector_and_all_are_not_both_obeyed() -> None:
    with pytest.raises(typer.Exit) as ended:
        check_scope(parse_targets(["pods"], ""), "app=web", everything=True)
    assert ended.value.exit_code == 2
