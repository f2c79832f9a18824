"""PreFilter's results are merged as kube-scheduler merges them."""

from __future__ import annotations

from podsched.decide.evaluation.pre_filtering import PreFilterMerge, PreFilterOutcome
from podsched.framework.plugin import PreFilterResult
from podsched.framework.status import SKIP, SUCCESS, unresolvable, unschedulable


def merged(*results: tuple[str, PreFilterResult]) -> tuple[PreFilterOutcome, int]:
    """The outcome, and how many plugins were asked."""
    merge = PreFilterMerge()
    asked = 0
    for name, result in results:
        asked += 1
        if not merge.add(name, result):
            break
    return merge.done(), asked


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(SUCCESS, frozenset(names))


def test_plugins_that_skip_or_name_no_nodes_leave_all_nodes_in() -> None:
    outcome, asked = merged(("A", PreFilterResult(SKIP)), ("B", PreFilterResult()))
    assert (outcome, asked) == (PreFilterOutcome(), 2)


def test_the_nodes_that_several_plugins_name_are_those_that_all_name() -> None:
    outcome, _ = merged(("B", only("x", "y")), ("A", only("y", "z")))
    assert outcome.status.ok
    assert outcome.node_names == {"y"}
    assert outcome.excluded.message == "node(s) didn't satisfy plugin(s) [A B]"


def test_plugins_that_leave_no_node_in_reject_the_pod_together() -> None:
    outcome, asked = merged(("B", only("x")), ("A", only("y")), ("C", PreFilterResult()))
    message = "node(s) didn't satisfy plugin(s) [A B] simultaneously"
    assert (outcome.status.message, asked) == (message, 2)


def test_one_plugin_that_names_no_node_rejects_the_pod_alone() -> None:
    outcome, _ = merged(("A", only()))
    assert outcome.status.message == "node(s) didn't satisfy plugin A"


def test_an_unresolvable_rejection_ends_pre_filter_and_names_its_plugin() -> None:
    rejected = PreFilterResult(unresolvable("no"))
    outcome, asked = merged(("A", rejected), ("B", PreFilterResult()))
    assert (outcome.status, asked) == (unresolvable("no").by("A"), 1)


def test_after_an_unschedulable_one_the_others_run_for_preemption_needs_their_state() -> None:
    rejected = PreFilterResult(unschedulable("no"))
    outcome, asked = merged(("A", rejected), ("B", PreFilterResult()))
    assert (outcome.status, asked) == (unschedulable("no").by("A"), 2)
