"""What ``sched explain`` prints of an explanation."""

from __future__ import annotations

import pytest

from podsched.cli.explanation import explanation_lines
from podsched.v1.scheduling_pb2 import Explanation, QueueAdmission

_NEVER = 30 * 86400.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ((5, 60, 600), "in about 60s; four of five pods like it: 5s to 10m"),
        ((5, 60, _NEVER), "in about 60s; four of five pods like it: 5s or later, or never"),
        ((5, _NEVER, _NEVER), "in 5s at the earliest; most pods like it got no node so far"),
    ],
)
def test_an_estimate_without_an_end_is_told_as_such(
    seconds: tuple[float, float, float], text: str
) -> None:
    answer = Explanation()
    for probability, at in zip((0.1, 0.5, 0.9), seconds, strict=True):
        answer.eta.quantiles.add(probability=probability, seconds=at)
    assert " ".join(" ".join(explanation_lines(answer, 0.0)).split()).endswith(text)


@pytest.mark.parametrize(
    ("local_queue", "cluster_queue", "row"),
    [
        ("default/a", "team", "  Queue         default/a, ClusterQueue team"),
        ("default/a", "", "  Queue         default/a"),
        ("", "", None),
    ],
)
def test_of_the_queues_of_a_unit_those_that_there_are_are_named(
    local_queue: str, cluster_queue: str, row: str | None
) -> None:
    answer = Explanation()
    answer.admission.local_queue, answer.admission.cluster_queue = local_queue, cluster_queue
    answer.admission.sentence = "It waits."
    rows = [line for line in explanation_lines(answer, 0.0) if line.startswith("  Queue")]
    assert rows == ([] if row is None else [row])


def test_the_members_of_a_missing_group_that_have_a_node_do_not_wait_for_it() -> None:
    answer = Explanation()
    answer.pod_group.name, answer.pod_group.members, answer.pod_group.with_node = "big", 3, 2
    said = " ".join(" ".join(explanation_lines(answer, 0.0)).split())
    missing = "big: does not exist; 3 members, 2 with a node; those without one wait for it"
    assert missing in said


def test_one_member_is_not_in_the_plural() -> None:
    answer = Explanation()
    answer.pod_group.name, answer.pod_group.members, answer.pod_group.all_domains = "one", 1, 2
    answer.pod_group.domains.add(name="a", nodes=1)
    text = " ".join(" ".join(explanation_lines(answer, 0.0)).split())
    assert "1 member, 0 with a node" in text
    assert "and 1 more domain" in text and "domains" not in text


@pytest.mark.parametrize(
    ("errors", "says"),
    [(0, "7.5s left of 10s; tried earlier if no other pod is ready"), (1, "7.5s left of 10s")],
)
def test_a_pod_that_may_leave_backoff_early_is_told_so(errors: int, says: str) -> None:
    answer = Explanation()
    answer.queue.queue, answer.queue.consecutive_errors = "backoff", errors
    answer.queue.backoff_seconds, answer.queue.backoff_left_seconds = 10.0, 7.5
    assert f"  Backoff       {says}" in explanation_lines(answer, 0.0)


@pytest.mark.parametrize(
    ("shortages", "heading"),
    [
        (0, "What would let it start, the least of each kind"),
        (1, "What would let it start once it has quota, the least of each kind"),
    ],
)
def test_a_group_that_lacks_quota_too_is_not_told_that_a_node_is_enough(
    shortages: int, heading: str
) -> None:
    answer = Explanation()
    answer.pod_group.name = "train"
    answer.changes.add(kind="node", description="add a node like n1")
    answer.admission.sentence = "It waits."
    answer.admission.shortages.extend(QueueAdmission.Shortage() for _ in range(shortages))
    assert heading in explanation_lines(answer, 0.0)


def test_a_plugin_that_rejects_nodes_before_filter_is_not_told_of_as_another_one() -> None:
    answer = Explanation(nodes=3)
    answer.funnel.add(extension_point="PreFilter", plugin="NodeAffinity", before=3, rejected=3)
    for name in ("NodeAffinity", "NodePorts"):
        answer.funnel.add(extension_point="Filter", plugin=name, rejects_alone=3)
    [line] = [line for line in explanation_lines(answer, 0.0) if "Also reject" in line]
    assert line.endswith(": NodePorts (3)")
