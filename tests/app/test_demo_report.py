"""What the demo's report finds wrong."""

from __future__ import annotations

from podsched.app.demo_observer import Observer
from podsched.app.demo_report import DemoReport
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


def test_a_report_names_the_load_of_a_machine_that_was_busy_before() -> None:
    assert "load 9.3 on 2 processors" in DemoReport(load=9.3, processors=2).why_slow()
    assert DemoReport(load=1.9, processors=2).why_slow() == ""
