"""Deciding for good: in a trial that is committed."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.cache.cache import Cache
from podsched.engine.cycle.placement import Decision, Placer
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import QueuedPodInfo


def decide(
    cache: Cache, placer: Placer, runtime: ProfileRuntime, pods: Sequence[QueuedPodInfo]
) -> list[Decision]:
    with cache.trial() as trial:
        decisions = placer.decide(trial, runtime, pods)
        trial.commit()
    return decisions
