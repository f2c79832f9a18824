"""Links are struck for as long as a block lasts."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.lab.chaos.faults.kinds import KINDS
from podsched.lib.relay import LinkState


class Links:
    """A system of one link, which notes what is done to it."""

    leader = "scheduler-0"

    def __init__(self) -> None:
        self.state: list[LinkState] = []
        self.asked: list[tuple[str, str]] = []
        self.links = self.link = self

    def between(self, source: str, target: str) -> list[Links]:
        self.asked.append((source, target))
        return [self]

    def impair(self, state: LinkState) -> None:
        self.state.append(state)

    def restore(self, state: LinkState) -> None:
        self.state.remove(state)


@pytest.mark.parametrize(
    ("fault", "link", "what"),
    [
        ("cut-leader-etcd", ("scheduler-0", "etcd"), "scheduler-0 -x- etcd"),
        ("cut-leader-standbys", ("peers", "scheduler-0"), "scheduler-0 -x- standbys"),
        ("half-open-api", ("client", "apiserver"), "client -> API servers, half open"),
    ],
)
async def test_a_link_is_struck_until_the_block_ends(
    fault: str, link: tuple[str, str], what: str
) -> None:
    system: Any = Links()
    async with KINDS[fault].inject(system, 0.0) as told:
        assert (told, system.asked, len(system.state)) == (what, [link], 1)
    assert system.state == []
