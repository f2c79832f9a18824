"""Deciding for good: in a trial that is committed."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.decide.decider import Decider
from podsched.decide.decision import Decision
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pods import QueuedPodInfo


def decide(
    cache: Cache,
    decider: Decider,
    runtime: ProfileRuntime,
    pods: Sequence[QueuedPodInfo],
) -> list[Decision]:
    with Trial(cache) as trial:
        decisions = decider.decide(trial, runtime, pods)
        trial.commit()
    return decisions
