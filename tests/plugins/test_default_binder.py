"""DefaultBinder: every pod is bound through the API."""

from __future__ import annotations

from podsched.framework.plugin import CycleState
from podsched.plugins.default_binder import DefaultBinder
from support.engine_world import pod
from support.plugin_world import info


def test_every_pod_is_bound_through_the_api() -> None:
    assert DefaultBinder().bind(CycleState(), info(pod("p")), "n").ok
