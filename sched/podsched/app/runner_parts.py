"""The parts that a replica's terms need, and the Ray actors of one term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from podsched.cache.columns import Columns
from podsched.config.load import SchedulerConfiguration
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.decide.accelerators.remote import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.calls import Extenders
from podsched.framework.plugin import PluginFactory
from podsched.serve.client.cluster import Cluster, ControlledCluster, InformerPort
from podsched.telemetry.metrics import ControllerMetrics
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.cycle.decision_notes import DecisionSink
from podsched.term.writes.bind_queue import Binder


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
    controller_metrics: ControllerMetrics | None = None
    decisions: DecisionSink | None = None
    """Records each decision; None: none is recorded."""
    queues: bool = True
    """Whether pods may be in queues. False where Kueue may use the same labels."""
