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

    def __init__(self, status: Status) -> None:
        self.status = status

    def post_filter(self, *_: Any) -> PostFilterResult:
        return PostFilterResult(self.status)


def run(*statuses: Status) -> Status:
    """Run a plugin for each status, called p0, p1 and so on; return the status of the result."""
    plugins: Any = [Named(f"p{at}", Answers(status)) for at, status in enumerate(statuses)]
    unused: Any = None
    return run_post_filter(plugins, CycleState(), unused, unused, unused).status


@pytest.mark.parametrize("status", [SUCCESS, unresolvable("never"), error("broken")])
def test_no_other_post_filter_plugin_runs_after_success_unresolvable_or_an_error(
    status: Status,
) -> None:
    assert run(unschedulable("no"), status, unschedulable("no")) == status.by("p1")


def test_after_unschedulable_the_next_post_filter_plugin_runs() -> None:
    assert run(unschedulable("no"), SUCCESS) == SUCCESS.by("p1")
