"""Counters, gauges and histograms that take less than a microsecond to record, and their registry.

**Why not OpenTelemetry's instruments.** A scheduler binds up to 10,000 pods per second in one
process and records several histograms for each. OpenTelemetry has no observable histogram, so each
record would go through its SDK (several microseconds: frozen attributes, aggregation lookups, a
lock), and its Prometheus exporter adds ``otel_scope_*`` labels and ``target_info``. Here the counts
are kept in plain lists, and ``prometheus_client`` (which that exporter uses as well) renders them
on request through its Collector interface, with names, labels and buckets exactly as declared.

**Threads.** Values recorded on one thread are counted exactly. Cells have no locks: a cell written
by two threads may lose an increment. Give each thread its own cells, or pass results to the event
loop (``HistogramCell.merge``).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

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

from podsched.lib.docstrings import attribute_docstrings

#: A version in an Accept header that is none; prometheus_client fails if it compares one.
_ODD_VERSION = re.compile(r"version=(?!\d{1,4}(\.\d{1,4})*\s*([;,]|$))", re.ASCII)
# Up to this many values a loop over bisect is faster than NumPy's fixed cost (measured: about 60).
_NUMPY_FROM = 64


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return ``count`` upper bounds, each ``factor`` times the last: ExponentialBuckets in Go."""
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


class GaugeCell(CounterCell):
    """One time series of a gauge."""

    __slots__ = ()

    def set(self, value: float) -> None:
        self.value = value


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
        """Record the same value ``count`` times, for a batch that shares one measurement."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def observe_many(self, values: Sequence[float]) -> None:
        """Record many values at once; NumPy arrays and long lists take about 10 ns per value."""
        if len(values) < _NUMPY_FROM:
            for value in values:
                self.observe(value)
            return
        array = np.asarray(values, dtype=np.float64)
        places = np.searchsorted(self.bounds, array, side="left")
        self.merge(np.bincount(places, minlength=len(self.counts)).tolist(), float(array.sum()))

    def merge(self, counts: Sequence[int], total: float) -> None:
        """Add the counts of another thread or process, with the same buckets."""
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
            self.labels()  # a metric without labels is exported as zero before its first change

    def labels(self, *values: str) -> CellT:
        """Return the time series with these label values, in the order of ``label_names``.

        Keep the cell if the values are known beforehand: the lookup takes about 100 ns.
        """
        cell = self._cells.get(values)
        if cell is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {self.label_names}, not {values}")
            cell = self._cells[values] = self._make()
        return cell

    def cells(self) -> list[tuple[tuple[str, ...], CellT]]:
        return list(self._cells.items())


class Counter(_Family[CounterCell]):
    """A number that only increases; ``name`` ends in ``_total``."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help_text, labels, CounterCell)

    def inc(self, amount: float = 1.0) -> None:
        """Increase the only series of a metric without labels."""
        self.labels().inc(amount)

    def collect(self) -> Metric:
        family = CounterMetricFamily(self.name, self.help, labels=self.label_names)
        for values, cell in self.cells():
            family.add_metric(values, cell.value)
        return family


class Gauge(_Family[GaugeCell]):
    """A number that can go up and down."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...] = ()) -> None:
        super().__init__(name, help_text, labels, GaugeCell)

    def set(self, value: float) -> None:
        """Set the only series of a metric without labels."""
        self.labels().set(value)

    def collect(self) -> Metric:
        family = GaugeMetricFamily(self.name, self.help, labels=self.label_names)
        for values, cell in self.cells():
            family.add_metric(values, cell.value)
        return family


class Histogram(_Family[HistogramCell]):
    """Counts of values by bucket."""

    def __init__(
        self, name: str, help_text: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> None:
        self.buckets = buckets
        self._upper = [go_float(bound) for bound in (*buckets, float("inf"))]
        super().__init__(name, help_text, labels, lambda: HistogramCell(buckets))

    def observe(self, value: float) -> None:
        """Record a value in the only series of a metric without labels."""
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


def go_float(value: float) -> str:
    """Return a number as Prometheus' own clients write it."""
    text: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return text


Instrument = Counter | Gauge | Histogram
InstrumentT = TypeVar("InstrumentT", bound=Instrument)


class MetricRegistry(Collector):
    """The metrics of one process, and their text for /metrics."""

    def __init__(self, disabled: Iterable[str] = ()) -> None:
        """``disabled``: names of metrics that are left out of the text."""
        self._disabled = frozenset(disabled)
        self._instruments: dict[str, Instrument] = {}
        self._before: list[Callable[[], object]] = []
        self._prometheus = CollectorRegistry(auto_describe=False)
        self._prometheus.register(self)

    def add(self, instrument: InstrumentT) -> InstrumentT:
        """Register a metric. Raises ``ValueError`` if the name is taken."""
        if instrument.name in self._instruments:
            raise ValueError(f"metric {instrument.name} is registered already")
        self._instruments[instrument.name] = instrument
        return instrument

    def add_process_metrics(self) -> None:
        """Add process_* (CPU, memory, descriptors) and python_gc_*."""
        ProcessCollector(registry=self._prometheus)
        GCCollector(registry=self._prometheus)

    def before_collect(self, update: Callable[[], object]) -> None:
        """Call ``update`` before each scrape, for gauges that are cheaper to read than to keep."""
        self._before.append(update)

    def collect(self) -> Iterable[Metric]:
        for update in self._before:
            update()
        for name, instrument in list(self._instruments.items()):
            if name not in self._disabled:
                yield instrument.collect()

    def names(self) -> list[str]:
        return list(self._instruments)

    def instruments(self) -> list[Instrument]:
        """Return the metrics in the order in which they were added."""
        return list(self._instruments.values())

    def disabled(self) -> frozenset[str]:
        """Return the names of the metrics that are left out of the text."""
        return self._disabled & self._instruments.keys()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics as text, and its content type.

        OpenMetrics if ``accept`` asks for it, else the text format 0.0.4.
        """
        content_type, parts = self.parts(accept)
        return b"".join(parts), content_type

    def parts(self, accept: str = "") -> tuple[str, Iterator[bytes]]:
        """Return the content type and the text of ``render``, one metric after another.

        All metrics of a leader take some 15 ms, so the caller may run other tasks in between.
        """
        encode, content_type = choose_encoder("" if _ODD_VERSION.search(accept) else accept)
        return content_type, self._parts(encode)

    def _parts(self, encode: Callable[[Collector], bytes]) -> Iterator[bytes]:
        end = encode(_Only(()))  # The end of the text in OpenMetrics: "# EOF".
        for metric in self._prometheus.collect():
            yield encode(_Only((metric,))).removesuffix(end)
        yield end


class _Only(Collector):
    """A collector of given metrics, to encode them alone."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


class MetricSet:
    """Base of classes that declare metrics: an instance registers one of each.

    The docstring below a declaration is the metric's help text.
    """

    def __init__(self, registry: MetricRegistry) -> None:
        texts = attribute_docstrings(type(self))
        for attribute, declared in vars(type(self)).items():
            if isinstance(declared, _Declared):
                setattr(self, attribute, registry.add(declared.make(texts[attribute])))


class _Declared(NamedTuple):
    make: Callable[[str], Instrument]


def counter(series: str) -> Counter:
    """Declare a counter of a ``MetricSet``; ``series``: such as "requests_total{verb,code}"."""
    name, labels = _parsed(series)
    return cast(Counter, _Declared(lambda text: Counter(name, text, labels)))


def gauge(series: str) -> Gauge:
    """Declare a gauge of a ``MetricSet``."""
    name, labels = _parsed(series)
    return cast(Gauge, _Declared(lambda text: Gauge(name, text, labels)))


def histogram(series: str, buckets: tuple[float, ...]) -> Histogram:
    """Declare a histogram of a ``MetricSet``; ``buckets``: upper bounds."""
    name, labels = _parsed(series)
    return cast(Histogram, _Declared(lambda text: Histogram(name, text, labels, buckets)))


def _parsed(series: str) -> tuple[str, tuple[str, ...]]:
    name, _, labels = series.removesuffix("}").partition("{")
    return name, tuple(filter(None, labels.split(",")))
