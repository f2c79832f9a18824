"""Pass objects and their changes to the controllers; skip what a controller cannot handle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from podsched.api.objects import Pod
from podsched.serve.client.informer import Event, EventType
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.controller import (
    Controller,
    Instant,
    Objects,
    is_bare,
    stays_bare,
)

_log = get_logger("controllers")
#: Max faults that are remembered as logged; with more, all may be logged again.
_MOST_FAULTS = 1000
#: Kinds are read in this order, others in between. Leases come before nodes, whose first heartbeat
#: is then that of the lease; pods come last, so that few controllers need those that are bare.
_ORDER = {"Lease": -1, "Pod": 1}
#: Called with a controller's name, the kind and key of the object that is skipped, and the error.
Skip = Callable[[str, str, str, Exception], None]


class Dispatch:
    """The running controllers by the kinds that they listen to."""

    def __init__(self, controllers: Iterable[Controller], skip: Skip) -> None:
        self._skip = skip
        self._by_kind: dict[str, list[Controller]] = {}
        for controller in controllers:
            self.add(controller)
        #: The keys of pods that were bare in the last event that was passed on.
        self._bare: set[str] = set()

    def add(self, controller: Controller) -> None:
        for kind in controller.kinds:
            self._by_kind.setdefault(kind, []).append(controller)

    def remove(self, controller: Controller) -> None:
        for listening in self._by_kind.values():
            listening[:] = [other for other in listening if other is not controller]

    def start(
        self, controllers: Sequence[Controller], objects: Objects, now: Instant
    ) -> Iterator[None]:
        """Let controllers read the existing objects, one per step.

        Other tasks may run between two steps, and pass changes on.
        """
        kinds = {kind for controller in controllers for kind in controller.kinds}
        for kind in sorted(kinds, key=lambda kind: (_ORDER.get(kind, 0), kind)):
            concerned = [one for one in controllers if kind in one.kinds]
            if kind == "Pod":
                for controller in concerned:
                    controller.pods_follow()
            for key in list(objects.objects(kind)):
                yield
                if (item := objects.get(kind, key)) is None:
                    continue
                event = Event(EventType.ADDED, kind, key, None, item)
                told = concerned
                if kind == "Pod" and self._stays_bare(event):
                    told = [one for one in concerned if not one.ignores_bare_pods]
                self._tell(told, event, now)

    def pass_on(self, events: Iterable[Event], now: Instant) -> None:
        """Pass events to the controllers of their kinds."""
        concerned_by_bare: list[Controller] | None = None
        for event in events:
            controllers = self._by_kind.get(event.kind, [])
            if event.kind == "Pod" and self._stays_bare(event):
                if concerned_by_bare is None:
                    concerned_by_bare = [one for one in controllers if not one.ignores_bare_pods]
                controllers = concerned_by_bare
            else:
                # Which controllers ignore bare pods may change with any other event.
                concerned_by_bare = None
            self._tell(controllers, event, now)

    def _tell(self, controllers: Iterable[Controller], event: Event, now: Instant) -> None:
        for controller in controllers:
            try:
                controller.changed(event, now)
            except Exception as error:
                self._skip(controller.name, event.kind, event.key, error)

    def _stays_bare(self, event: Event) -> bool:
        """Whether a bare pod is new, or has changed and is the same pod, still bare."""
        old, new, key = event.old, event.new, event.key
        if isinstance(new, Pod):
            # Reading the old pod again would cost as much as the new one.
            was_bare = key in self._bare
            if was_bare and old is not None and old.metadata.uid == new.metadata.uid:
                if stays_bare(new):
                    return True
            elif is_bare(new):
                self._bare.add(key)
                return old is None
        self._bare.discard(key)
        return False


class Faults:
    """Counts and logs the objects that controllers cannot handle."""

    def __init__(self, metrics: ControllerMetrics) -> None:
        self._metrics = metrics
        self._skipped: set[tuple[str, str, str, str]] = set()

    def count(self, controller: str, result: str) -> None:
        self._metrics.reconciles_total.labels(controller, result).inc()

    def skip(self, controller: str, kind: str, key: str, error: Exception) -> None:
        """Log and count an object that a controller cannot handle; each bug is logged once."""
        self.count(controller, "error")
        fault = (controller, kind, key, repr(error))
        if fault in self._skipped:
            return
        if len(self._skipped) == _MOST_FAULTS:
            self._skipped.clear()
        self._skipped.add(fault)
        _log.warning(
            "An object is skipped",
            controller=controller,
            kind=kind,
            name=key,
            error=repr(error),
            exc_info=error,
        )
