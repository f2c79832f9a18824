"""What is shown around a violation."""

from __future__ import annotations

from podsched.lab.chaos.outcome import check
from podsched.lab.chaos.report import LINES, around
from support.chaos_history import Story


def test_a_violation_is_shown_with_the_life_of_its_objects_and_the_faults_of_its_time() -> None:
    story = Story()
    story.node()
    story.pod("web")
    story.pod("other")
    story.wait(100)
    first = story.term("s0")
    story.fault()
    story.term("s1")
    story.wrote(first, "web", story.becomes("web", node="node-1"))
    [violation] = check(story.history)
    told = "\n".join(line.text for line in around(story.history, violation))
    assert "c create pods/default/web -> ok after 0.010 s" in told
    assert "pods/default/web node=node-1" in told
    assert f"apiserver-0 BindPods of term {first} for default/web: revisions " in told
    assert "terms/kube-system/kube-scheduler held by s1" in told
    assert "fault 1 begins: SIGKILL" in told
    assert "fault 1 over" in told
    assert "other" not in told


def test_of_a_long_life_the_part_closest_to_the_violation_is_shown() -> None:
    story = Story()
    story.pod("web")
    for priority in range(2 * LINES):
        story.becomes("web", priority=priority)
    story.gone("web")
    [violation] = check(story.history)
    lines = around(story.history, violation)
    assert len(lines) == LINES
    assert "deleted" in lines[-1].text
