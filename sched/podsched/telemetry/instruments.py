"""Counters, gauges and histograms that cost less than a microsecond to record, and their registry.

**Why not OpenTelemetry's instruments.** A scheduler binds up to 10,000 pods a second in one process
and records several histograms for each. OpenTelemetry has no observable histogram, so each record
would go through its SDK (several microseconds: attributes frozen, aggregations looked up, a lock),
and its Prometheus exporter adds ``otel_scope_*`` labels and ``target_info``. So the counts are kept
here, in plain lists, and ``prometheus_client`` (the library under that exporter) renders them when
somebody asks, through its Collector interface: names, labels and buckets come out as written.

**Guarantee.** What is recorded on one thread is counted exactly. Cells are not locked: a cell
written by two threads at the same moment may lose an increment, so give threads cells of their own
or hand results to the event loop (``HistogramCell.merge``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

# Below this many values a loop over bisect is faster than numpy's fixed cost (measured: about 60).
_NUMPY_FROM = 64


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """``count`` upper bounds, each ``factor`` times the last: Prometheus' ExponentialBuckets."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


class CounterCell:
    """One time series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class GaugeCell:
    """One time series of a gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class HistogramCell:
    """One time series of a histogram; ``counts`` are per bucket, not cumulative, +Inf last."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def observe_n(self, value: float, count: int) -> None:
        """Return the same value ``count`` times, as when a batch shared one measurement."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def observe_many(self, values: Sequence[float]) -> None:
        """Many values at once; numpy arrays and long lists cost some 10 ns a value."""
        if len(values) < _NUMPY_FROM:
            for value in values:
                self.observe(value)
            return
        array = np.asarray(values, dtype=np.float64)
        places = np.searchsorted(self.bounds, array, side="left")
        self.merge(np.bincount(places, minlength=len(self.counts)).tolist(), float(array.sum()))

    def merge(self, counts: Sequence[int], total: float) -> None:
        """Add what was counted elsewhere (another thread, a Ray actor) over the same buckets."""
        if len(counts) != len(self.counts):
            raise ValueError(f"{len(counts)} buckets given, the histogram has {len(self.counts)}")
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, counts, strict=True)]
        self.sum += total


CellT = TypeVar("CellT", CounterCell, GaugeCell, HistogramCell)


class _Family(Generic[CellT]):
    """A metric's time series by label values."""

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...], make: Callable[[], CellT]
    ) -> None:
        self.name = name
        self.help = help_text
        self.label_names = labels
        self._make: Callable[[], CellT] = make
        self._cells: dict[tuple[str, ...], CellT] = {}
        if not labels:
            self.labels()  # a metric without labels is there, at zero, from the first scrape on

    def labels(self, *values: str) -> CellT:
        """Return the time series with these label values, in the order of ``label_names``.

        Keep the cell where the values are known beforehand; looking it up costs some 100 ns.
        """
        cell = self._cells.get(values)
        if cell is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, not {values}")
            cell = self._cells[values] = self._make()
        return cell

    def cells(self) -> list[tuple[tuple[str, ...], CellT]]:
        return list(self._cells.items())

    def remove(self, *values: str) -> None:
        """Forgets one time series, as when the thing it counted is gone."""
        self._cells.pop(values, None)


class Counter(_Family[CounterCell]):
    """A number that only grows; ``name`` ends in ``_total``."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help_text, labels, CounterCell)

    def inc(self, amount: float = 1.0) -> None:
        """Count in the one series of a metric without labels."""
        self.labels().inc(amount)

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.label_names)
        for values, cell in self.cells():
            family.add_metric(values, cell.value)
        return family


class Gauge(_Family[GaugeCell]):
    """A number that goes up and down."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help_text, labels, GaugeCell)

    def set(self, value: float) -> None:
        """Set the one series of a metric without labels."""
        self.labels().set(value)

    def collect(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.label_names)
        for values, cell in self.cells():
            family.add_metric(values, cell.value)
        return family


class Histogram(_Family[HistogramCell]):
    """How often values fell into which bucket."""

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> None:
        self.buckets = buckets
        self._upper = [_go_float(bound) for bound in (*buckets, float("inf"))]
        super().__init__(name, help_text, labels, lambda: HistogramCell(buckets))

    def observe(self, value: float) -> None:
        """Observes in the one series of a metric without labels."""
        self.labels().observe(value)

    def collect(self) -> Metric:
        family = HistogramMetricFamily(self.name, self.help, labels=self.label_names)
        for values, cell in self.cells():
            cumulative, total = [], 0
            for bound, count in zip(self._upper, cell.counts, strict=True):
                total += count
                cumulative.append((bound, float(total)))
            family.add_metric(values, cumulative, cell.sum)
        return family


def _go_float(value: float) -> str:
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


class Instrument(Protocol):
    """What a registry needs of a metric."""

    @property
    def name(self) -> str: ...

    def collect(self) -> Metric: ...


InstrumentT = TypeVar("InstrumentT", bound=Instrument)


class MetricRegistry:
    """The metrics of one process, and their text for /metrics."""

    def __init__(self) -> None:
        self._instruments: dict[str, Instrument] = {}
        self._before: list[Callable[[], None]] = []
        self._prometheus = CollectorRegistry(auto_describe=False)
        self._prometheus.register(_Bridge(self))

    def add(self, instrument: InstrumentT) -> InstrumentT:
        """Register a metric; ValueError when the name is taken."""
        if instrument.name in self._instruments:
            raise ValueError(f"metric {instrument.name} is registered already")
        self._instruments[instrument.name] = instrument
        return instrument

    def add_process_metrics(self) -> None:
        """Add process_* (CPU, memory, descriptors) and python_gc_*."""
        ProcessCollector(registry=self._prometheus)
        GCCollector(registry=self._prometheus)

    def before_collect(self, update: Callable[[], None]) -> None:
        """Call ``update`` before each scrape; for gauges that are cheaper to read than to keep."""
        self._before.append(update)

    def collect(self) -> Iterable[Metric]:
        for update in self._before:
            update()
        return [instrument.collect() for instrument in self._instruments.values()]

    def names(self) -> list[str]:
        return list(self._instruments)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics as text, and its content type.

        OpenMetrics if ``accept`` asks for it, else the text format 0.0.4.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self._prometheus), content_type


class _Bridge(Collector):
    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        return self._registry.collect()
