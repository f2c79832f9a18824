"""A part of a starting Ray head that has ended is noticed, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from podsched.actors.ray_parts import RayParts
from podsched.lib.processes import SessionProcess

HEAD = SessionProcess(1, "python", "python -m ray.scripts.scripts start", False)
GCS = SessionProcess(2, "gcs_server", "/ray/core/src/ray/gcs/gcs_server --log_dir=x", False)
RAYLET = SessionProcess(3, "raylet", "/raylet --agent=/ray/dashboard/agent.py", False)
AGENT = SessionProcess(4, "python", "python -u /site-packages/ray/dashboard/agent.py", False)
TITLED = SessionProcess(4, "ray::DashboardA", "ray::DashboardAgent  ", False)
OTHER = SessionProcess(5, "python", "python -u /x/ray/_private/runtime_env/agent/main.py", False)
HELPER = SessionProcess(6, "bash", "bash -c true", False)


def dead(process: SessionProcess) -> SessionProcess:
    return process._replace(command="", has_ended=True)


@pytest.mark.parametrize(
    ("before", "after", "ended"),
    [
        ([], [], []),
        ([HEAD], [HEAD, GCS], []),
        ([HEAD, GCS], [HEAD], ["gcs_server"]),
        ([HEAD, GCS], [HEAD, dead(GCS)], ["gcs_server"]),
        ([HEAD, GCS, RAYLET], [HEAD, dead(GCS), dead(RAYLET)], ["gcs_server", "raylet"]),
        ([GCS, RAYLET, AGENT], [GCS, RAYLET, TITLED], []),
        ([GCS, RAYLET, AGENT], [GCS, RAYLET], ["the dashboard agent"]),
        ([RAYLET, TITLED, OTHER], [RAYLET, TITLED], ["the runtime environment agent"]),
        ([GCS, HELPER], [GCS], []),
    ],
    ids=[
        "nothing", "a start", "gone", "a zombie", "several", "a title instead of the command",
        "an agent", "the other agent", "a helper",
    ],
)  # fmt: skip
def test_parts_that_ran_and_run_no_more_have_ended(
    before: list[SessionProcess], after: list[SessionProcess], ended: list[str]
) -> None:
    parts = RayParts()
    assert parts.ended(before) == []
    assert [parts.ended(after), parts.ended(after)] == [[], ended]


def test_a_part_that_ended_before_the_first_look_has_ended() -> None:
    parts = RayParts()
    assert [parts.ended([HEAD, dead(GCS)]) for _ in range(2)] == [[], ["gcs_server"]]


def test_a_part_that_is_missed_once_has_not_ended() -> None:
    parts = RayParts()
    looks = [[RAYLET, AGENT], [RAYLET], [RAYLET, TITLED], [RAYLET], [RAYLET, TITLED]]
    assert [parts.ended(look) for look in looks] == [[]] * 5
