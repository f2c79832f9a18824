"""The order of PostFilter plugins, and when no other one runs."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.decide.post_filtering import run_post_filter
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.plugin import CycleState, PostFilterResult
from podsched.framework.status import SUCCESS, Status, error, unresolvable, unschedulable


class Answers:
    """A PostFilter plugin with a fixed result."""

    def __init__(self, result: PostFilterResult) -> None:
        self.result = result

    def post_filter(self, *_: Any) -> PostFilterResult:
        return self.result


def result_of(*results: PostFilterResult) -> PostFilterResult:
    """Run a plugin for each result, called p0, p1 and so on."""
    plugins: Any = [Named(f"p{at}", Answers(result)) for at, result in enumerate(results)]
    unused: Any = None
    return run_post_filter(plugins, CycleState(), unused, unused, unused)


def run(*statuses: Status) -> Status:
    """Run a plugin for each status; return the status of the result."""
    return result_of(*map(PostFilterResult, statuses)).status


@pytest.mark.parametrize("status", [SUCCESS, unresolvable("never"), error("broken")])
def test_no_other_post_filter_plugin_runs_after_success_unresolvable_or_an_error(
    status: Status,
) -> None:
    assert run(unschedulable("no"), status, unschedulable("no")) == status.by("p1")


def test_after_unschedulable_the_next_post_filter_plugin_runs() -> None:
    assert run(unschedulable("no"), SUCCESS) == SUCCESS.by("p1")


def test_if_no_post_filter_plugin_helps_the_reasons_of_all_are_told() -> None:
    assert run(unschedulable("no claims"), unschedulable("no victims")) == unschedulable(
        "no claims", "no victims"
    ).by("p0")


def test_the_latest_nomination_counts_if_no_post_filter_plugin_helps() -> None:
    no = unschedulable("no")
    withdrawn, kept = PostFilterResult(no, ""), PostFilterResult(no)
    assert result_of(withdrawn, kept).nominated_node_name == ""
    assert result_of(kept, withdrawn).nominated_node_name == ""
    assert result_of(kept, kept).nominated_node_name is None
