"""What is printed of objects."""

from __future__ import annotations

import re

import pytest

from podsched.api.columns import node_status, pod_status
from podsched.api.kinds import KINDS, kind_of
from podsched.api.objects import Event, LimitRange, Node, Pod, Secret
from podsched.api.private_fields import LAST_APPLIED
from podsched.cli.describe import description
from podsched.cli.printers import TablePrinter, aligned, first_rows, wrapped
from podsched.lib.ages import age
from support.engine_world import container, node, pod


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (3 * 3600, "3h"), (5 * 3600 + 60, "5h1m"), (8 * 3600, "8h"),
        (47 * 3600, "47h"), (48 * 3600, "2d"), (52 * 3600, "2d4h"), (191 * 3600, "7d23h"),
        (192 * 3600, "8d"), (729 * 86400, "729d"), (730 * 86400, "2y"), (800 * 86400, "2y70d"),
        (8 * 365 * 86400 + 90000, "8y"),
    ],
)  # fmt: skip
def test_ages_are_written_as_kubectl_does(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_columns_are_aligned_without_trailing_spaces() -> None:
    assert aligned([["A", "LONG"], ["wider", "x"], ["b"]]) == ["A       LONG", "wider   x", "b"]


def test_rows_that_are_left_out_are_counted() -> None:
    rows = [["a", "1"], ["b", "2"], ["c", "3"]]
    shown = first_rows(rows, 1, ["X", "Y"])
    assert shown == ["X   Y", "a   1", "... and 2 more (-o json has all)"]
    assert first_rows(rows, 3) == ["a   1", "b   2", "c   3"]


def test_later_rows_keep_to_the_columns_of_the_table() -> None:
    table = TablePrinter(KINDS["Pod"], namespaces=False, wide=False)
    first = table.lines([pod("a-long-name")], 0.0)
    later = table.lines([pod("b")], 0.0)
    assert len(first) == 2
    assert [line.index("Pending") for line in (first[1], *later)] == [14, 14]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_a_table_of_headings_and_cells(kind: object) -> None:
    of = KINDS[getattr(kind, "name", "")]
    message = of.message()
    message.metadata.name = "x"
    lines = TablePrinter(of, namespaces=True, wide=True).lines([message], 0.0)
    assert len(lines) == 2
    assert kind_of(message) is of


def test_a_pods_status_says_what_keeps_it() -> None:
    assert pod_status(pod("p")) == "Pending"
    gated = pod("p", {"schedulingGates": [{"name": "g"}], "containers": [container()]})
    assert pod_status(gated) == "SchedulingGated"
    going = pod("p")
    going.metadata.deletion_timestamp.GetCurrentTime()
    assert pod_status(going) == "Terminating"
    going.status.phase = "Succeeded"
    assert pod_status(going) == "Succeeded"


def test_a_nodes_status_is_its_readiness_and_whether_it_is_cordoned() -> None:
    fresh = Node()
    assert node_status(fresh) == "Unknown"
    fresh.status.conditions.add(type="Ready", status="True")
    fresh.spec.unschedulable = True
    assert node_status(fresh) == "Ready,SchedulingDisabled"


def test_a_description_writes_taints_as_they_are_given() -> None:
    lines = description(node("n", taints=[{"key": "k", "effect": "NoExecute"}]), [], [], 0.0)
    assert "Taints:        k:NoExecute" in lines.splitlines()


def test_a_table_and_a_description_tell_hollow_nodes_from_real_ones() -> None:
    hollow = node("h", labels={"podsched.io/hollow": "true"})
    real = node("r")
    real.status.node_info.kubelet_version = "v1.36.0"
    heading, *rows = TablePrinter(KINDS["Node"], namespaces=False, wide=False).lines(
        [hollow, real], 0.0
    )
    assert [line.split()[5] for line in (heading, *rows)] == ["VERSION", "hollow", "v1.36.0"]
    said = "Hollow:        yes, a hollow node of sched agent: nothing runs on it"
    assert said in description(hollow, [], [], 0.0)
    assert "ollow" not in description(real, [], [], 0.0)


def test_a_pod_says_that_its_node_is_hollow() -> None:
    hollow, real = node("h", labels={"podsched.io/hollow": "true"}), node("r")
    said = "Node:          h, a hollow node of sched agent: nothing runs on it"
    assert said in description(pod("a", {"nodeName": "h"}), [], [hollow], 0.0).splitlines()
    lines = description(pod("a", {"nodeName": "r"}), [], [real], 0.0).splitlines()
    assert "Node:          r" in lines


def test_a_description_tells_conditions_and_events_in_order() -> None:
    waiting = Pod()
    waiting.metadata.name = "p"
    waiting.status.conditions.add(
        type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes"
    )
    events = [
        Event(type="Warning", reason=reason, count=count) for reason, count in (("B", 3), ("A", 1))
    ]
    for seconds, event in zip((50, 20), events, strict=True):
        event.last_timestamp.seconds = seconds
        event.source.component = "scheduler"
    lines = description(waiting, events, [], 60.0).splitlines()
    assert "  PodScheduled=False (Unschedulable): 0/1 nodes" in lines
    assert lines[-2:] == [
        "  Warning A 40s ago, scheduler: ",
        "  Warning B 10s ago (x3), scheduler: ",
    ]


def test_an_event_happened_at_the_latest_of_its_times() -> None:
    """Some have only a first time, others, as kube-scheduler's, only a time of their own."""
    first, old, new = (Event(type="Normal", reason=reason) for reason in ("First", "Old", "New"))
    first.first_timestamp.seconds, old.event_time.seconds, new.last_timestamp.seconds = 10, 20, 50
    old.series.count, old.series.last_observed_time.seconds = 4, 30
    assert description(pod("p"), [new, old, first], [], 60.0).splitlines()[-3:] == [
        "  Normal First 50s ago, : ",
        "  Normal Old 30s ago (x4), : ",
        "  Normal New 10s ago, : ",
    ]


def test_events_are_listed_as_kubectl_does() -> None:
    event = Event(type="Normal", reason="Scheduled", message="Successfully assigned")
    event.involved_object.kind, event.involved_object.name = "Pod", "p"
    event.last_timestamp.seconds = 50
    lines = TablePrinter(KINDS["Event"], namespaces=False, wide=False).lines([event], 60.0)
    assert lines == [
        "LAST SEEN   TYPE     REASON      OBJECT   MESSAGE",
        "10s         Normal   Scheduled   pod/p    Successfully assigned",
    ]


def test_a_nodes_description_adds_up_what_its_pods_request() -> None:
    def running(name: str) -> Pod:
        return pod(
            name, {"nodeName": "n", "containers": [container({"cpu": "500m", "memory": "64Mi"})]}
        )

    done = running("done")
    done.status.phase = "Succeeded"
    lines = description(node("n"), [], [running("a"), running("b"), done], 0.0).splitlines()
    rows = [line.split()[:2] for line in lines]
    assert ["cpu", "1"] in rows and ["memory", "128Mi"] in rows
    assert "Pods (2):" in lines


def test_a_description_of_a_secret_has_only_the_sizes_of_its_data() -> None:
    secret = Secret(type="Opaque", data={"password": "aHVudGVyMg=="})
    secret.metadata.annotations[LAST_APPLIED] = '{"data":{"password":"aHVudGVyMg=="}}\n'
    lines = description(secret, [], [], 0.0).splitlines()
    assert "  password: 7 bytes" in lines
    assert "Annotations:   <none>" in lines
    assert not [line for line in lines if "aHVudGVyMg" in line]


def test_in_a_description_what_strangers_stored_stays_on_its_line() -> None:
    web = pod("web")
    web.metadata.annotations["a"] = "b\nStatus:        Running\n"
    web.status.conditions.add(type="Ready", status="False", message="c\nd")
    event = Event(type="Normal", reason="Told", message="e\nEvents:        <none>")
    lines = description(web, [event], [], 0.0).splitlines()
    assert r"Annotations:   a=b\nStatus:        Running\n" in lines
    assert r"  Ready=False: c\nd" in lines
    assert lines[-1].endswith(r": e\nEvents:        <none>")


def test_a_limit_range_is_described_as_kubectl_does() -> None:
    limits = LimitRange()
    item = limits.spec.limits.add(type="Container", default={"cpu": "500m"}, min={"cpu": "50m"})
    item.default_request["memory"] = "1Gi"
    limits.spec.limits.add(type="Pod", max={"cpu": "2"}, max_limit_request_ratio={"cpu": "10"})
    lines = description(limits, [], [], 0.0).splitlines()
    bounds = ["Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"]
    assert [re.split(" {3,}", line) for line in lines[3:-1]] == [
        ["Type", "Resource", *bounds],
        ["----", "--------", *("-" * len(bound) for bound in bounds)],
        ["Container", "cpu", "50m", "-", "-", "500m", "-"],
        ["Container", "memory", "-", "-", "1Gi", "-", "-"],
        ["Pod", "cpu", "-", "2", "-", "-", "10"],
    ]


def test_what_strangers_stored_stays_in_its_cell() -> None:
    assert aligned([["a\x1b[2J\nb", "c"], ["d", "e"]]) == ["a\\x1b[2J\\nb   c", "d             e"]


ROWS = [["OBJECT", "MESSAGE"], ["pod/a", "0/3 nodes are available: 3 Insufficient cpu."]]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (
            "40",
            [
                "OBJECT   MESSAGE",
                "pod/a    0/3 nodes are available: 3",
                "         Insufficient cpu.",
            ],
        ),
        (
            "30",
            [
                "OBJECT   MESSAGE",
                "pod/a",
                "    0/3 nodes are available: 3",
                "    Insufficient cpu.",
            ],
        ),
    ],
)
def test_the_last_column_is_wrapped_at_the_width_of_the_terminal(
    columns: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert wrapped(ROWS) == lines


def test_no_name_is_broken_at_its_hyphen_and_nothing_gets_no_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    rows = [["x" * 38, "-"], ["x" * 38, "preempts default/low-a, default/low-b and low-c"]]
    assert wrapped(rows) == [
        "x" * 38,
        "x" * 38,
        "    preempts default/low-a,",
        "    default/low-b and low-c",
    ]


def test_nothing_is_wrapped_for_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert len(wrapped(ROWS)) == 2


def test_owners_show_how_many_pods_are_wanted_and_ready() -> None:
    owner = KINDS["ReplicaSet"].new()
    owner.spec.replicas, owner.status.ready_replicas = 3, 2  # type: ignore[union-attr]
    heading, row = TablePrinter(KINDS["ReplicaSet"], namespaces=False, wide=False).lines([owner], 0)
    assert heading.split()[1:3] == ["DESIRED", "READY"]
    assert row.split()[0:2] == ["3", "2"]


@pytest.mark.parametrize(("columns", "all_shown"), [("80", False), ("200", True), ("", True)])
def test_a_narrow_terminal_goes_without_columns_that_say_the_usual_of_all_pods(
    monkeypatch: pytest.MonkeyPatch, columns: str, all_shown: bool
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    pods = [pod(f"web-7d9c5b8f6d-{i}", {"nodeName": "node-0000"}) for i in range(2)]
    for one in pods:
        one.spec.scheduler_name = "default-scheduler"
    lines = TablePrinter(KINDS["Pod"], namespaces=False, wide=True).lines(pods, 0.0)
    assert ("NOMINATED NODE" in lines[0]) == all_shown
    assert ("SCHEDULER" in lines[0]) == all_shown
    assert all_shown or max(map(len, lines)) <= 80


def test_a_column_that_says_something_stays_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    waits = pod("waits")
    waits.status.nominated_node_name = "node-0001"
    lines = TablePrinter(KINDS["Pod"], namespaces=False, wide=True).lines([waits, pod("b")], 0.0)
    assert "node-0001" in lines[1]
