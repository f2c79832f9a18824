"""What a term of leadership works with, put together by the replica."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.client.cluster import TermCluster
from podsched.config.settings import SchedulerSettings
from podsched.engine.cycle.cycle_metrics import CycleMeter
from podsched.engine.cycle.decision_notes import DecisionSink
from podsched.engine.cycle.pre_bind import ClusterChanges
from podsched.engine.decide.decider import Decider
from podsched.engine.extenders.calls import Extenders
from podsched.engine.state import SchedulingState
from podsched.engine.writes.bind_queue import Binder
from podsched.engine.writes.event_recorder import EventRecorder
from podsched.v1 import api_pb2


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What a loop works with and does not make itself."""

    state: SchedulingState
    cluster: TermCluster
    fence: api_pb2.Fence
    decider: Decider
    binder: Binder
    recorder: EventRecorder
    meter: CycleMeter
    settings: SchedulerSettings
    changes: ClusterChanges
    extenders: Extenders | None = None
    decisions: DecisionSink | None = None
    """Who keeps what is decided; None: nobody."""
