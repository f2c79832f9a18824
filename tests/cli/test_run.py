"""``sched run``, as far as it needs no server."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.cli.objects import Writer
from podsched.cli.options import DryRun
from podsched.cli.run import create_in_order
from podsched.serve.client.errors import Invalid
from podsched.v1.objects_pb2 import PodGroup
from support.commands import Commands


@pytest.mark.parametrize("option", ["--cpu", "--memory"])
def test_an_amount_with_a_wrong_unit_is_refused_before_the_group_is_made(option: str) -> None:
    words = ("run", "--gang", "2", option, "500z", "train", "--", "image")
    done = Commands("127.0.0.1:1")(*words)
    assert (done.code, done.out) == (2, ""), "3 would say that the server was asked"
    assert done.err.startswith(f'error: {option}: "500z": quantities must match')


class Refusing:
    """A client whose server refuses every object."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def create(self, message: Any, **_: Any) -> None:
        self.asked.append(type(message).__name__)
        raise Invalid("no")


async def test_a_gang_whose_group_is_refused_has_no_pods() -> None:
    client: Any = Refusing()
    writer = Writer(client, lambda: None, DryRun.NONE)
    await create_in_order(writer, [PodGroup(), Pod()])
    assert (client.asked, writer.failures) == (["PodGroup"], 1)
