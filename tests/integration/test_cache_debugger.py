"""A running scheduler writes what it knows to its log when it gets SIGUSR2."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest

from support.eventually import eventually
from support.real_cluster import real_cluster

pytestmark = pytest.mark.integration


@pytest.mark.long
async def test_a_scheduler_compares_and_dumps_its_cache_on_sigusr2_and_goes_on(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=1, nodes=3) as real:

        async def all_bound(prefix: str, count: int) -> None:
            assert await (await real.submit(prefix, count)).wait() == 0
            await eventually(f"{prefix} bound", lambda: real.bound(prefix) == count)

        await all_bound("early", 5)
        leader = real.leader()
        leader.kill(signal.SIGUSR2)
        await eventually(
            "the dump", lambda: "Dump of scheduling queue" in leader.log_path.read_text()
        )
        text = leader.log_path.read_text()
        assert "Cache matches the informer's store" in text, text
        assert text.count("Dump of cached NodeInfo") == 3
        assert len(set(re.findall(r"name: (early-\d+),", text))) == 5
        assert "inconsistent" not in text
        await all_bound("late", 5)
        assert real.leader() is leader
