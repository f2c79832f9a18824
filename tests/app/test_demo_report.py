"""What the demo's report finds wrong."""

from __future__ import annotations

import pytest

from podsched.app.demo_observer import Leader, Observer
from podsched.app.demo_report import DemoReport, Kill, print_report
from podsched.serve.client.informer import Batch, Event, EventType
from support.demo_world import placed, stored


def bound_to(observer: Observer, name: str, node_name: str) -> None:
    event = Event(EventType.MODIFIED, "Pod", f"default/{name}", None, placed(name, node_name))
    observer.handle(Batch(1, [event]))


def test_what_is_missing_in_etcd_is_lost_and_what_changed_its_node_was_bound_twice() -> None:
    observer, report = Observer(), DemoReport()
    bound_to(observer, "a", "n1")
    bound_to(observer, "a", "n2")
    bound_to(observer, "b", "n1")
    keys = [f"default/{name}" for name in "abcd"]
    report.check(keys, stored(placed("a", "n2"), placed("b", "n1"), placed("c", "")), observer)
    assert (report.pods, report.bound, report.lost, report.bound_twice) == (4, 2, 1, 1)
    assert not report.good


def test_a_report_is_good_only_when_every_pod_is_bound_once_within_capacity() -> None:
    assert DemoReport(pods=3, bound=3).good
    assert not DemoReport(pods=3, bound=2).good
    assert not DemoReport(pods=3, bound=3, bound_twice=1).good
    assert not DemoReport(pods=3, bound=3, overcommitted_nodes=1).good


@pytest.mark.parametrize(
    ("load", "gap", "names"), [(9.3, 0.5, True), (1.9, 0.5, False), (9.3, 0.4, False)]
)
def test_a_report_names_the_load_of_a_machine_that_was_busy_before_a_long_pause(
    load: float, gap: float, names: bool
) -> None:
    report = DemoReport(load=load, processors=2, kills=[Kill("SIGKILL", "a", gap)])
    assert ("load 9.3 on 2 processors" in report.why_slow()) == names


def test_the_last_lines_say_what_was_found_in_etcd(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(
        DemoReport(
            nodes=14,
            pods=300,
            bound=299,
            lost=1,
            bound_twice=2,
            overcommitted_nodes=3,
            seconds=12.34,
            leaders=[Leader("scheduler-0_x", 7, 0.25)],
            kills=[Kill("SIGKILL", "scheduler-0_x", 0.514)],
            placed={("web", "zone-a"): 290, ("web", "gpu"): 10},
            workloads={"web": "100m each"},
            load=9.3,
            processors=2,
        )
    )
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in said if line] == [
        "Placement (pods per zone; gpu: the tainted nodes)",
        "workload zone-a gpu pods",
        "web 290 10 100m each",
        "Leaders",
        "scheduler-0_x, term 7, since 00:00:00.250 UTC",
        "scheduler-0_x killed with SIGKILL; next pod bound after 0.51 s",
        "(a busy machine: load 9.3 on 2 processors; else at most 0.4 s)",
        "Checked against etcd",
        "299 of 300 pods bound, on 14 hollow nodes",
        "1 pods lost, 2 bound twice",
        "3 nodes overcommitted",
        "12.3 s in total",
    ]
