"""The configuration in a bundle of ``sched explain``."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any, cast

import pytest

from podsched.cli.explain import _running_config
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Unavailable
from podsched.v1.scheduling_pb2 import SchedulingCheckpoint


class Leader:
    """Answers with a checkpoint, or not."""

    def __init__(self, checkpoint: dict[str, Any] | None) -> None:
        self._checkpoint = checkpoint

    async def checkpoint(self) -> SchedulingCheckpoint:
        if self._checkpoint is None:
            raise Unavailable("no replica leads")
        return SchedulingCheckpoint(content=gzip.compress(json.dumps(self._checkpoint).encode()))


def asked(checkpoint: dict[str, Any] | None) -> Any:
    return asyncio.run(_running_config(cast(ApiClient, Leader(checkpoint))))


def test_it_is_that_with_which_the_leader_decides() -> None:
    config = {"percentageOfNodesToScore": 50}
    found = asked({"term": 1, "revision": 2, "number": 3, "configuration": config})
    assert found == config


def test_where_the_leader_does_not_tell_it_the_default_is_packed_and_that_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert asked(None) is None
    said = " ".join(capsys.readouterr().err.split())
    assert "the bundle has the default configuration; the leader's is unknown" in said
    assert "no replica leads" in said
