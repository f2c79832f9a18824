"""The tree of queues that the page shows."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import ClusterQueue, Cohort, LocalQueue
from podsched.ask.web.queues import MOST_QUEUES, QueueTable
from support.page_script import Script


def cluster_queue(name: str, quota: str, used: str = "0", cohort: str = "all") -> ClusterQueue:
    made = ClusterQueue()
    made.metadata.name = name
    made.spec.cohort_name = cohort
    group = made.spec.resource_groups.add()
    group.covered_resources.append("cpu")
    group.flavors.add(name="spot").resources.add(name="cpu", nominal_quota=quota)
    made.status.flavors_reservation.add(name="spot").resources.add(name="cpu", total=used)
    return made


def local_queue(name: str, of: str, waiting: int = 0) -> LocalQueue:
    made = LocalQueue()
    made.metadata.namespace, made.metadata.name = "default", name
    made.spec.cluster_queue = of
    made.status.pending_workloads = waiting
    return made


def table(*queues: ClusterQueue) -> QueueTable:
    made = QueueTable()
    for queue in queues:
        made.put("ClusterQueue", queue.metadata.name, queue)
    return made


async def quotas(made: QueueTable) -> dict[str, list[Any]]:
    return {row["name"]: row["quotas"] for row in (await made.document())["queues"]}


async def test_each_queue_stands_below_its_parent() -> None:
    made = table(cluster_queue("b", "4"), cluster_queue("alone", "1", cohort=""))
    child = Cohort()
    child.metadata.name, child.spec.parent_name = "all", "whole"
    made.put("Cohort", "all", child)
    made.put("LocalQueue", "default/team", local_queue("team", "b", waiting=2))
    found = await made.document()
    rows = [(row["depth"], row["kind"], row["name"]) for row in found["queues"]]
    assert rows == [
        (0, "Cohort", "whole"),
        (1, "Cohort", "all"),
        (2, "ClusterQueue", "b"),
        (3, "LocalQueue", "default/team"),
        (0, "ClusterQueue", "alone"),
    ]
    assert found["queues"][3]["waiting"] == 2 and found["count"] == 5


async def test_a_local_queue_without_its_cluster_queue_stands_last() -> None:
    made = table(cluster_queue("team", "4", cohort=""))
    made.put("LocalQueue", "default/lost", local_queue("lost", "nowhere"))
    found = await made.document()
    assert [(row["depth"], row["name"]) for row in found["queues"]] == [
        (0, "team"),
        (0, "default/lost"),
    ]
    assert found["count"] == 2


def test_a_level_too_deep_to_be_indented_is_numbered() -> None:
    script = Script("dom", "format", "queues")
    assert script.run("[0, 5, 6].map(level)") == ["", "", "6: "]


async def test_what_is_borrowed_is_the_part_of_the_usage_beyond_the_quota() -> None:
    made = table(cluster_queue("lender", "4"), cluster_queue("borrower", "2", "5"))
    assert await quotas(made) == {
        "all": [["spot", "cpu", "5", "6", "0", 0.833, 0.0]],
        "borrower": [["spot", "cpu", "5", "2", "3", 0.4, 0.6]],
        "lender": [["spot", "cpu", "0", "4", "0", 0.0, 0.0]],
    }
    shares = {row["name"]: row["share"] for row in (await made.document())["queues"]}
    assert shares == {"all": 0, "borrower": 500, "lender": 0}


async def test_a_change_is_seen_and_what_is_gone_is_not() -> None:
    made = table(cluster_queue("team", "4", cohort=""), cluster_queue("other", "4", cohort=""))
    await made.document()
    made.put("ClusterQueue", "team", cluster_queue("team", "4", "1", cohort=""))
    made.put("ClusterQueue", "other", None)
    assert await quotas(made) == {"team": [["spot", "cpu", "1", "4", "0", 0.25, 0.0]]}


async def test_a_queue_that_admits_nothing_says_why() -> None:
    stopped = cluster_queue("team", "4")
    stopped.status.conditions.add(type="Active", status="False", message="it is stopped")
    rows = (await table(stopped).document())["queues"]
    assert [row["problem"] for row in rows] == ["", "it is stopped"]


async def test_of_many_queues_the_first_are_shown_and_all_are_counted() -> None:
    made = table(*(cluster_queue(f"q{index}", "1") for index in range(MOST_QUEUES + 20)))
    found = await made.document()
    assert len(found["queues"]) == MOST_QUEUES and found["count"] == MOST_QUEUES + 21


def test_a_row_says_what_waits_and_its_share() -> None:
    script = Script("dom", "format", "queues")
    rows = [
        {"waiting": 1200, "admitted": 3, "share": 0},
        {"waiting": 0, "admitted": 1, "share": 250},
        {"share": 2**63 - 1},
    ]
    assert script.run("rows.map(says)", rows=rows) == [
        "1,200 waiting, 3 admitted",
        "0 waiting, 1 admitted, share 250",
        "borrows with weight 0",
    ]
