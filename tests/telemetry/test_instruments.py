import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.telemetry.instruments import (
    Counter,
    Gauge,
    Histogram,
    HistogramCell,
    MetricRegistry,
    exponential_buckets,
)


def test_the_text_has_the_names_labels_and_buckets_as_declared_and_nothing_else() -> None:
    registry = MetricRegistry()
    attempts = registry.add(Counter("scheduler_x_total", "Help.", ("result", "profile")))
    pending = registry.add(Gauge("scheduler_pending", "Pending.", ("queue",)))
    duration = registry.add(Histogram("scheduler_d_seconds", "Time.", ("op",), (0.001, 0.5)))
    attempts.labels("scheduled", "a").inc(3)
    pending.labels("active").set(2)
    duration.labels("bind").observe(0.001)
    duration.labels("bind").observe(7)
    text, content_type = registry.render()
    assert content_type.startswith("text/plain")
    assert text.decode() == (
        "# HELP scheduler_x_total Help.\n"
        "# TYPE scheduler_x_total counter\n"
        'scheduler_x_total{profile="a",result="scheduled"} 3.0\n'
        "# HELP scheduler_pending Pending.\n"
        "# TYPE scheduler_pending gauge\n"
        'scheduler_pending{queue="active"} 2.0\n'
        "# HELP scheduler_d_seconds Time.\n"
        "# TYPE scheduler_d_seconds histogram\n"
        'scheduler_d_seconds_bucket{le="0.001",op="bind"} 1.0\n'
        'scheduler_d_seconds_bucket{le="0.5",op="bind"} 1.0\n'
        'scheduler_d_seconds_bucket{le="+Inf",op="bind"} 2.0\n'
        'scheduler_d_seconds_count{op="bind"} 2.0\n'
        'scheduler_d_seconds_sum{op="bind"} 7.001\n'
    )


def test_a_metric_without_labels_is_zero_before_anything_happened() -> None:
    registry = MetricRegistry()
    registry.add(Counter("a_total", "A."))
    assert b"\na_total 0.0\n" in registry.render()[0]


def test_a_disabled_metric_is_left_out_of_the_text() -> None:
    registry = MetricRegistry(disabled=["scheduler_a_total"])
    for name in ("scheduler_a_total", "scheduler_b_total"):
        registry.add(Counter(name, "Help.")).inc()
    text = registry.render()[0].decode()
    assert "scheduler_b_total" in text and "scheduler_a_total" not in text


def test_a_name_is_registered_once() -> None:
    registry = MetricRegistry()
    registry.add(Counter("a_total", "A."))
    with pytest.raises(ValueError, match="a_total"):
        registry.add(Gauge("a_total", "A."))


def test_the_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="result"):
        Counter("a_total", "A.", ("result",)).labels("x", "y")


def test_gauges_can_be_updated_before_they_are_collected() -> None:
    registry = MetricRegistry()
    gauge = registry.add(Gauge("g", "G."))
    registry.before_collect(lambda: gauge.set(42))
    assert b"g 42.0" in registry.render()[0]


def test_process_metrics_are_there_when_wanted() -> None:
    registry = MetricRegistry()
    registry.add_process_metrics()
    assert b"process_resident_memory_bytes" in registry.render()[0]


def test_openmetrics_is_served_to_those_who_ask() -> None:
    registry = MetricRegistry()
    registry.add(Counter("a_total", "A."))
    text, content_type = registry.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


@pytest.mark.parametrize("kind", ["text/plain", "application/openmetrics-text"])
@pytest.mark.parametrize("version", ["x", "1.x", "2.x", "1..0", '"1.0.0"', "1.0.0-rc", "9" * 5000])
def test_a_version_that_is_none_is_answered_in_the_text_format(kind: str, version: str) -> None:
    registry = MetricRegistry()
    registry.add(Counter("a_total", "A."))
    text, content_type = registry.render(f"{kind};version={version}, */*")
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\na_total 0.0\n" in text


def test_the_text_comes_in_parts_of_one_metric_each() -> None:
    registry = MetricRegistry()
    for name in ("a_total", "b_total"):
        registry.add(Counter(name, "A counter."))
    for accept, end in (("", []), ("application/openmetrics-text; version=1.0.0", [b"# EOF\n"])):
        _, parts = registry.parts(accept)
        first, second, *rest = list(parts)
        assert b"\na_total 0.0\n" in first and b"\nb_total 0.0\n" in second
        assert [part for part in rest if part] == end


def test_exponential_buckets_are_prometheus() -> None:
    assert exponential_buckets(1, 2, 5) == (1, 2, 4, 8, 16)


VALUES = st.lists(st.floats(0, 20) | st.sampled_from([0.0, 1.0, 2.0, 4.0]), max_size=200)


@given(VALUES)
def test_many_values_count_as_they_would_one_by_one(values: list[float]) -> None:
    one, many, array = (HistogramCell((1.0, 2.0, 4.0)) for _ in range(3))
    for value in values:
        one.observe(value)
    many.observe_many(values)
    array.observe_many(np.array(values))
    assert many.counts == array.counts == one.counts
    assert many.sum == pytest.approx(one.sum)
    assert array.sum == pytest.approx(one.sum)


def test_a_value_equal_to_a_bound_counts_below_it_in_long_lists_too() -> None:
    cell = HistogramCell((1.0, 2.0))
    cell.observe_many([1.0] * 100 + [2.0] * 50)
    assert cell.counts == [100, 50, 0]


def test_the_same_value_many_times_counts_so() -> None:
    cell = HistogramCell((1.0, 2.0))
    cell.observe_n(1.5, 3)
    assert (cell.counts, cell.sum) == ([0, 3, 0], 4.5)


def test_counts_from_elsewhere_need_the_same_buckets() -> None:
    cell = HistogramCell((1.0,))
    cell.merge([1, 2], 5.0)
    assert (cell.counts, cell.sum) == ([1, 2], 5.0)
    with pytest.raises(ValueError, match="3 buckets"):
        cell.merge([1, 2, 3], 1.0)
