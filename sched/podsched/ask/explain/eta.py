"""Estimate when a pending pod will get a node, as quantiles, from recent bindings of similar pods.

Similar pods have about the same requests (``shape_of``). Two estimates are combined.

By rank and rate (``estimate``), from the last bindings of similar pods:

* ``busy``: seconds in which at least one of them waited. Bindings while no pod waits say nothing
  about how fast nodes become free.
* Bindings that come in bursts are not independent, so ``spread`` of them count as one event: with
  ``b`` for the sizes of the bursts, ``spread = sum(b^2) / sum(b)`` (the index of dispersion of a
  compound Poisson process), ``events = bindings / spread``. At most ``MOST_EVENTS`` count, because
  the past is no better guide than that. If there are fewer than ``_ENOUGH`` events, the ends of
  such pods count instead, and the seconds in which they ended.
* Later pods of higher priority overtake. If their rate is ``share`` of the rate of bindings (at
  most ``_MOST_OVERTAKING``), everything takes ``1 / (1 - share)`` times as long.

The pod waits for the ``k``-th binding from now on, where ``k`` is its rank among the waiting pods,
that is, for ``k / spread`` events, at least one. Pods of its priority that were created in the same
second come before it or after it, so the interval covers all these ranks, and the median is that of
the middle one. If events come at a constant but unknown rate (Poisson; the rate has a Gamma
posterior with half an event as the prior), the wait divided by ``busy`` is
BetaPrime(k / spread, events + 1/2). So few observations give wide intervals.

By the waits of others (``waits_from``). If more pods arrive than end, the rank predicts little: a
new pod may get free room before one in backoff, so most pods wait for a short time and some for
ever. So this estimate looks at pods that waited at least as long as this one has by now, and at how
much longer they waited: the last ``MOST_BINDINGS`` pods of its shape and priority; if too few of
them were bound (``_ENOUGH_WAITS``), of its shape, of its priority, or all pods. Pods that still
wait are right-censored observations, since leaving them out would make waits look short (Kaplan and
Meier, *Nonparametric Estimation from Incomplete Observations*, JASA 53, 1958).

The interval covers both estimates; the median is that of the waits of others, if there is one. Its
end is ``FOREVER`` if fewer than nine of ten such pods got a node. The remaining backoff is no lower
bound: a pod leaves it early when nothing else is ready. ``podsched.lab.replay.calibration``
measures for how many pods the interval is right.

Rejected: scaling the first estimate by its errors for earlier pods (conformal prediction). It needs
an estimate for each of them, and was right for 34 to 81 % on synthetic traces with fewer nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from podsched.api.conditions import is_finished
from podsched.api.objects import seconds_of
from podsched.api.quantity import QuantityError
from podsched.api.resources import requests_in_units
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Explanation

_UNRESOLVABLE: Final = Code.UNSCHEDULABLE_AND_UNRESOLVABLE.text
Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Waits:
    """How many seconds pods waited after some age; ``over``: True where binding ended the wait."""

    seconds: Times
    over: npt.NDArray[np.bool_]

    @property
    def bound(self) -> int:
        """Return how many were bound."""
        return int(self.over.sum())

    def quantiles(self, probabilities: Sequence[float]) -> list[float]:
        """Return seconds by probability; infinity where too few were bound for an estimate."""
        order = np.argsort(self.seconds, kind="stable")
        over = self.over[order]
        left = np.arange(len(order), 0, -1)
        bound = 1 - np.cumprod(np.where(over, 1 - 1 / left, 1.0))
        places = [np.flatnonzero(bound >= p - 1e-9) for p in probabilities]
        seconds = self.seconds[order]
        return [float(seconds[place[0]]) if len(place) else math.inf for place in places]


def waits_from(began: Times, bound: Times, ended: Times, age: float, now: float) -> Waits:
    """Return the waits of pods that waited longer than ``age`` seconds, in the given order.

    ``bound``, ``ended``: NaN if it has not happened by ``now``.
    """
    left = np.where(np.isnan(bound), np.where(np.isnan(ended), now, ended), bound)
    rest = left - began - age
    counted = rest > 0
    return Waits(rest[counted], ~np.isnan(bound[counted]))


PROBABILITIES: Final = (0.1, 0.5, 0.9)
MOST_BINDINGS: Final = 100
MOST_EVENTS: Final = 8.0
#: With at least so many events, only bindings of pods that waited count.
_ENOUGH: Final = 5.0
_MOST_OVERTAKING: Final = 0.9
#: Bindings at most so many seconds apart are one burst: times of objects have whole seconds.
_BURST: Final = 1.0
#: Longest wait that is estimated, in seconds (30 days); larger quantiles are set to it.
FOREVER: Final = 30 * 86400.0
#: Fewest bound pods in a group whose waits are used.
_ENOUGH_WAITS: Final = 8
_STEPS: Final = 60

Shape = tuple[tuple[str, int], ...]


def shape_of(requests: Mapping[str, int]) -> Shape:
    """Return the shape of a pod: its requests, rounded to powers of two."""
    return tuple(sorted((name, n.bit_length()) for name, n in requests.items() if n > 0))


@dataclass(frozen=True, slots=True)
class Past:
    """Pods of one shape: when each began to wait, was bound, and ended; NaN: not yet."""

    began: Times
    bound: Times
    ended: Times
    priority: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Waiting:
    """The pod, and the time at which it began to wait."""

    began: float
    priority: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds from now by probability, in ascending order, and a text about their basis."""

    seconds: tuple[float, ...]
    #: Its first and last possible rank among the waiting pods.
    rank: int
    last: int
    bindings: int
    busy: float
    spread: float
    #: Pods that had waited as long, and how many of them got a node; 0 where too few are known.
    waited: int = 0
    got: int = 0


def estimate_among(pasts: Sequence[Past], pod: Waiting, now: float) -> Estimate | None:
    """Return the estimate from the first group with enough bindings.

    ``pasts``: similar pods, then all pods. Pods with other requests may get a node before the pod
    or after it, depending on which room becomes free.
    """
    by_rate = _by_rate(pasts, pod, now)
    if by_rate is None:
        return None
    waits = _waits_like(pasts, pod, now)
    if len(waits.seconds) < _ENOUGH_WAITS:
        return by_rate
    seconds = [min(q, FOREVER) for q in waits.quantiles(PROBABILITIES)]
    low, high = min(seconds[0], by_rate.seconds[0]), max(seconds[-1], by_rate.seconds[-1])
    return replace(
        by_rate, seconds=(low, *seconds[1:-1], high), waited=len(waits.seconds), got=waits.bound
    )


def _waits_like(pasts: Sequence[Past], pod: Waiting, now: float) -> Waits:
    """Return how much longer pods waited, for the first group with enough bindings."""
    groups = [_last_waits(past, pod, now) for past in _groups(pasts, pod)]
    enough = (waits for waits in groups if waits.bound >= _ENOUGH_WAITS)
    return next(enough, max(groups, key=lambda waits: waits.bound))


def _groups(pasts: Sequence[Past], pod: Waiting) -> Iterator[Past]:
    """Yield groups of pods, the most similar to the pod first."""
    for past in pasts:
        same = past.priority == pod.priority
        yield Past(past.began[same], past.bound[same], past.ended[same], past.priority[same])
        yield past


def _last_waits(past: Past, pod: Waiting, now: float) -> Waits:
    others = past.began != pod.began
    began, bound, ended = past.began[others], past.bound[others], past.ended[others]
    order = np.argsort(began, kind="stable")
    waits = waits_from(began[order], bound[order], ended[order], now - pod.began, now)
    return Waits(waits.seconds[-MOST_BINDINGS:], waits.over[-MOST_BINDINGS:])


def _by_rate(pasts: Sequence[Past], pod: Waiting, now: float) -> Estimate | None:
    found = [known for past in pasts if (known := estimate(past, pod, now)) is not None]
    if not found:
        return None
    enough = (known for known in found if known.bindings / known.spread >= _ENOUGH)
    most = max(found, key=lambda known: known.bindings / known.spread)
    chosen = next(enough, most)
    low = min(known.seconds[0] for known in found)
    high = max(known.seconds[-1] for known in found)
    return replace(chosen, seconds=(low, *chosen.seconds[1:-1], high))


def estimate(past: Past, pod: Waiting, now: float) -> Estimate | None:
    """Return when the pod will be bound; None if no similar pod has been bound yet.

    ``past`` includes the pod itself.
    """
    waits = np.isnan(past.bound) & np.isnan(past.ended) & (past.began <= now)
    equal = waits & (past.priority == pod.priority)
    ahead = (waits & (past.priority > pod.priority)) | (equal & (past.began < pod.began))
    first = int(ahead.sum()) + 1
    last = max(first, int((ahead | (equal & (past.began == pod.began))).sum()))
    rate = _rate(past, now)
    if rate is None:
        return None
    counted = min(rate.events, MOST_EVENTS)
    scale = rate.seconds * counted / rate.events / (1 - _overtaking(past, pod, now, rate))
    ranks = zip(PROBABILITIES, (first, (first + last) / 2, last), strict=True)
    quantiles = (_quantile(p, max(1.0, k / rate.spread), counted + 0.5) * scale for p, k in ranks)
    limited = tuple(min(q, FOREVER) for q in quantiles)
    return Estimate(limited, first, last, rate.count, rate.seconds, rate.spread)


@dataclass(frozen=True, slots=True)
class _Rate:
    """How often pods were bound: ``count`` times in ``seconds`` after ``since``."""

    count: int
    seconds: float
    spread: float
    since: float

    @property
    def events(self) -> float:
        return self.count / self.spread


def _rate(past: Past, now: float) -> _Rate | None:
    """Return how often waiting pods were bound; if too few were, how often pods ended."""
    waited = past.bound - past.began > _BURST
    bound = _counted(past.bound[waited], now, lambda since: _busy(past, since, now))
    if bound is not None and bound.events >= _ENOUGH:
        return bound
    ended = _counted(past.ended, now, lambda since: now - since)
    if bound is None or (ended is not None and ended.events > bound.events):
        return ended
    return bound


def _counted(times: Times, now: float, measure: Callable[[float], float]) -> _Rate | None:
    """Count the last of the times; the first of them opens the window and is not counted."""
    last = np.sort(times[times <= now])[-MOST_BINDINGS:]
    if not len(last):
        return None
    since = float(last[0])
    count, spread = _bursts(last[last > since + _BURST])
    seconds = measure(since)
    if not count or seconds <= 0:
        return _Rate(1, max(now - since, _BURST), 1.0, since)
    return _Rate(count, seconds, spread, since)


def _busy(past: Past, since: float, now: float) -> float:
    """Return for how many seconds after ``since`` some pod waited."""
    begins = np.maximum(past.began, since)
    ends = np.fmin(np.fmin(past.bound, past.ended), now)
    waited = ends > begins
    if not waited.any():
        return 0.0
    order = np.argsort(begins[waited], kind="stable")
    begins, ends = begins[waited][order], np.maximum.accumulate(ends[waited][order])
    gaps = np.maximum(0.0, begins[1:] - ends[:-1])
    return float(ends[-1] - begins[0] - gaps.sum())


def _bursts(times: Times) -> tuple[int, float]:
    """Return the number of bindings and their ``spread`` (see the module)."""
    if not len(times):
        return 0, 1.0
    first = np.flatnonzero(np.diff(times, prepend=-math.inf) > _BURST)
    sizes = np.diff(np.append(first, len(times)))
    return len(times), float((sizes**2).sum() / sizes.sum())


def _overtaking(past: Past, pod: Waiting, now: float, rate: _Rate) -> float:
    """Return the rate at which pods of higher priority arrive, as a share of ``rate``."""
    higher = (past.priority > pod.priority) & (past.began > rate.since) & (past.began <= now)
    arrivals = float(higher.sum()) / max(now - rate.since, _BURST)
    return min(_MOST_OVERTAKING, arrivals * rate.seconds / rate.count)


# ---------------------------------------------------------------------- BetaPrime


def _quantile(probability: float, a: float, b: float) -> float:
    """Return a quantile of BetaPrime(a, b), by bisection."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _beta_cdf(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return high / (1 - high) if high < 1 else math.inf


def _beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b).

    By its continued fraction (DLMF 8.17.22), from the side on which that converges fast.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x)
    front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    tiny = 1e-300
    numerator, denominator = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = denominator
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            denominator = 1 / ((1 + term * denominator) or tiny)
            numerator = (1 + term / numerator) or tiny
            fraction *= denominator * numerator
        if abs(denominator * numerator - 1) < 1e-12:
            break
    return math.exp(front) * fraction / a


# ---------------------------------------------------------------------- of stored pods

_Row = tuple[float, float, float, int]
"""When a pod began to wait, was bound and ended, and its priority."""


def add_eta(answer: Explanation, pods: Iterable[v1.Pod], pod: PodInfo, now: float) -> None:
    """Add quantiles to an explanation; nothing if no similar pod has been bound.

    Nothing either if only changes of nodes or of the pod can help, such as the end of gates: how
    long other pods waited for room says nothing about these.

    ``pods``: all stored pods, including ended ones and those of other schedulers; ``now``: Unix
    seconds. It takes 0.3 s for 20,000 pods.
    """
    if pod.pod.spec.scheduling_gates or _no_pod_can_make_room(answer):
        return
    own = shape_of(pod.cls.requests)
    like: list[_Row] = []
    everyone: list[_Row] = []
    for other in pods:
        known = _row(other)
        if known is not None:
            row, shape = known
            everyone.append(row)
            if shape == own:
                like.append(row)
    waiting = Waiting(pod.creation_time, pod.priority)
    found = estimate_among([_past(like), _past(everyone)], waiting, now)
    if found is None:
        return
    for probability, seconds in zip(PROBABILITIES, found.seconds, strict=True):
        answer.eta.quantiles.add(probability=probability, seconds=round(seconds, 1))
    times = "once" if found.bindings == 1 else f"{found.bindings} times"
    rank = f"{found.rank}" if found.rank == found.last else f"{found.rank} to {found.last}"
    # Not "in line": a new pod may get free room before an older one in backoff.
    place = f"It is number {rank} by priority and age"
    answer.eta.basis.append(f"{place}; room came {times} in {found.busy:.0f} s.")
    if found.waited:
        answer.eta.basis.append(
            f"{found.got} of {found.waited} pods that had waited as long got a node."
        )


def _no_pod_can_make_room(answer: Explanation) -> bool:
    """Whether only changes of nodes or of the pod help, as no node would do even if it were empty.

    The requests of NodeResourcesFit are more than the node has if its rejection is unresolvable.
    """
    events = answer.wake_events
    if events and all(event.event.startswith("Node") for event in events):
        return True
    by_others = {
        plugin
        for event in events
        if not event.event.startswith(("Node", "PodUpdate"))
        for plugin in event.plugins
    }
    return bool(answer.groups) and all(
        (group.plugin and group.plugin not in by_others)
        or (group.plugin == "NodeResourcesFit" and group.code == _UNRESOLVABLE)
        for group in answer.groups
    )


def _row(pod: v1.Pod) -> tuple[_Row, Shape] | None:
    """Return a pod's row and shape; None if gates keep it from the line.

    None, too, if it has a node without the time of its binding.
    """
    bound = ended = math.nan
    for condition in pod.status.conditions:
        at = seconds_of(condition.last_transition_time)
        if condition.type == "PodScheduled" and condition.status == "True":
            bound = at
        elif is_finished(pod):
            ended = at if math.isnan(ended) else max(ended, at)
    if math.isnan(bound) and (pod.spec.node_name or pod.spec.scheduling_gates):
        return None
    try:
        shape = shape_of(requests_in_units(pod))
    except QuantityError:
        return None
    began = seconds_of(pod.metadata.creation_timestamp)
    return (began, bound, ended, pod.spec.priority), shape


def _past(rows: list[_Row]) -> Past:
    began, bound, ended, priority = np.array(rows or np.empty((0, 4)), dtype=np.float64).T
    return Past(began, bound, ended, priority.astype(np.int64))
