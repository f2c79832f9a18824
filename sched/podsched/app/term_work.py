"""The work of a term: scheduling, the controllers and the Ray actors; and the parts for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from podsched.cache.columns import Columns
from podsched.config.load import SchedulerConfiguration
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.accelerators.sharding import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.calls import Extenders
from podsched.framework.plugin import PluginFactory
from podsched.lib.files import read_file
from podsched.lib.tasks import Changes, TaskSet
from podsched.serve.client.cluster import Cluster, ControlledCluster, InformerPort
from podsched.serve.client.informer import Batch
from podsched.telemetry.logs import get_logger
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.controllers.manager import ControllerManager
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.scheduling_loop import SchedulingLoop
from podsched.term.state import SchedulingState
from podsched.term.writes.bind_queue import Binder
from podsched.term.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2

_log = get_logger("replica")

#: Seconds before a new leader starts the controllers. With 20,000 pods their start takes 0.15 s,
#: which would delay the pods that have waited during the takeover.
_CONTROL_AFTER = 1.0
#: Max bytes of a file with certificates of authorities.
_MAX_CA_BYTES = 1 << 20


class TermActors(Protocol):
    """The Ray actors of one term; ``run`` keeps them until it is cancelled."""

    @property
    def evaluator(self) -> RemoteEvaluator: ...
    @property
    def dry_run(self) -> RemoteDryRun: ...
    @property
    def binder(self) -> Binder: ...

    async def run(self) -> None: ...


class Actors(Protocol):
    """Creates the Ray actors of a term."""

    def of_term(self, term: int, columns: Columns, direct: Binder) -> TermActors: ...


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """The parts of which a term's controllers are built."""

    settings: ControllerSettings
    cluster: ControlledCluster
    root_ca_file: str = ""
    """File with the certificates of the API servers' authority, for pods; "" for none."""


@dataclass(frozen=True, slots=True)
class RunnerParts:
    """The parts that all terms of a replica share."""

    identity: str
    config: SchedulerConfiguration
    settings: SchedulerSettings
    controllers: ControllerParts | None
    """None in a Kubernetes cluster, where kube-controller-manager runs the controllers."""
    factories: Mapping[str, PluginFactory]
    cluster: Cluster
    informer: InformerPort
    actors: Actors
    extenders: Extenders | None
    meter: CycleMeter
    controller_metrics: ControllerMetrics
    decisions: DecisionSink | None = None
    """Records each decision; None: none is recorded."""
    queues: bool = True
    """Whether pods may be in queues. False where Kueue may use the same labels."""


class TermWork:
    """The work of a term, until it ends or starts again; ``over``: its tasks have ended."""

    def __init__(
        self,
        parts: RunnerParts,
        state: SchedulingState,
        fence: api_pb2.Fence,
        recorder: EventRecorder,
        changes: Changes,
    ) -> None:
        self._parts = parts
        self._fence = fence
        self._recorder = recorder
        self._actors = parts.actors.of_term(fence.term, state.cache.columns, parts.cluster)
        self._tasks = TaskSet(f"term {fence.term}")
        self._controllers: ControllerManager | None = None
        self.over = False
        self.task: asyncio.Task[Exception | None] | None = None
        """Executes ``run``."""
        self.loop = SchedulingLoop(
            LoopParts(
                state=state,
                cluster=parts.cluster,
                fence=fence,
                decider=state.decider(
                    self._actors.evaluator,
                    self._actors.dry_run,
                    without=parts.settings.evaluation.without,
                ),
                binder=self._actors.binder,
                recorder=recorder,
                meter=parts.meter,
                settings=parts.settings,
                changes=changes,
                extenders=parts.extenders,
                decisions=parts.decisions,
            )
        )

    async def run(self) -> Exception | None:
        """Run the tasks; return the error that ended them, None if told to finish."""
        tasks, controllers = self._tasks, self._parts.controllers
        tasks.start(self.loop.run(), "scheduling", endless=True)
        if controllers is not None:
            tasks.start(self._control(controllers), "controllers", endless=True)
        tasks.start(self._actors.run(), "actors", endless=True)
        try:
            await tasks.run()
        except Exception as fault:
            return fault
        finally:
            self.over = True
        return None

    def handle(self, batch: Batch) -> None:
        """Pass a batch of the informer on to the controllers."""
        if self._controllers is not None:
            self._controllers.handle(batch)

    def finish(self) -> None:
        """End the work once the outcome of every binding is known."""
        if not self.over:
            self._tasks.start(self._finish(), "finish what is under way")

    async def _finish(self) -> None:
        await self.loop.finish()
        self._tasks.end()

    def cancel(self) -> None:
        """End the work at once."""
        self._controllers = None
        if self.task is not None:
            self.task.cancel()

    async def _control(self, parts: ControllerParts) -> None:
        """Run the controllers, ``_CONTROL_AFTER`` seconds after the term has begun."""
        await asyncio.sleep(_CONTROL_AFTER)
        root_ca = await asyncio.to_thread(_root_ca, parts.root_ca_file)
        self._controllers = ControllerManager(
            parts.cluster,
            self._parts.informer,
            parts.settings,
            self._fence,
            self._recorder,
            root_ca=root_ca,
            metrics=self._parts.controller_metrics,
        )
        await self._controllers.run()


def _root_ca(path: str) -> str:
    """Return the certificates in a file; "" without one, or if it cannot be read now."""
    try:
        return read_file(Path(path), _MAX_CA_BYTES).decode() if path else ""
    except (OSError, UnicodeDecodeError) as error:
        _log.warning("Pods get no root CA", file=path, error=str(error))
        return ""
