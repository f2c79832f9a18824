"""GangScheduling: what it keeps of the groups that it was asked about."""

from __future__ import annotations

import gc

from podsched.cache.cache import Cache
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.pod_groups import PodGroup
from podsched.plugins.gang_scheduling import GangScheduling
from support.gangs import gang


def test_groups_that_are_gone_are_not_kept_for_ever() -> None:
    cache = Cache()
    plugin = GangScheduling(None, SimulatedHandle(cache.cluster))
    for number in range(3000):
        group, (pod,) = gang(f"g{number}", 1, 1)
        cache.apply("PodGroup", None, group)
        cache.apply("Pod", None, pod)
        assert plugin.pre_enqueue(cache.cluster.pods[f"default/{pod.metadata.name}"]).ok
        cache.apply("Pod", pod, None)
        cache.apply("PodGroup", group, None)
    kept = sum(type(one) is PodGroup for one in gc.get_objects())
    assert kept < 2000
