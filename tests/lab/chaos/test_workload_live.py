"""The system as it is seen while it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from podsched.lab.chaos.system import System
from podsched.lab.chaos.workload import LiveWorld
from support.chaos_history import LOCK, Story


def seen(story: Story) -> tuple[LiveWorld, Any]:
    """What is known after a story, and what the system was told."""
    system = SimpleNamespace(leader_identity="", recorded=0)
    live = LiveWorld(cast(System, system), LOCK)
    for revision in story.history.revisions:
        live.see(revision)
    return live, system


def test_the_leader_is_who_holds_the_lock() -> None:
    story = Story()
    story.term("s0_1")
    story.term("s1_2")
    live, system = seen(story)
    assert (system.leader_identity, system.recorded) == ("s1_2", story.revision)
    story.released()
    assert seen(story)[1].leader_identity == ""
    assert live.bound == 0


def test_a_pod_that_waits_is_late_if_it_fits() -> None:
    story = Story()
    story.node(cpu="2")
    story.pod("web")
    story.pod("large", cpu="3")
    live, _ = seen(story)
    assert (live.bound, live.waiting, live.has_late_pods) == (0, 2, True)
    story.becomes("web", node="node-1")
    live, _ = seen(story)
    assert (live.bound, live.waiting, live.has_late_pods) == (1, 1, False)
