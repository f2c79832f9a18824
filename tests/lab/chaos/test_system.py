"""The relays of a system."""

from __future__ import annotations

import pytest

from podsched.lab.chaos.system import Links
from podsched.lib.tasks import TaskSet

pytestmark = pytest.mark.looptime


async def test_the_links_of_a_replica_are_not_those_of_one_whose_name_begins_the_same() -> None:
    links = Links(TaskSet("links"), 1, "")
    one = links.relay("scheduler-1", "apiserver-0", "127.0.0.1:1")
    links.relay("scheduler-10", "apiserver-0", "127.0.0.1:1")
    assert links.of("scheduler-1") == [one]
    links.close()
