"""What is recorded of etcd, and of what API servers wrote for whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from podsched.api.etcd_keys import SYNC, term_key
from podsched.chaos.history import VERSION, load
from podsched.chaos.recorder import Recorder
from podsched.chaos.records import Begin, Change, Revision
from podsched.store.protocol import Delete, Put
from podsched.testing.memory_store import MemoryStore
from support.chaos_history import LOCK


async def test_every_revision_of_etcd_is_recorded_whole_from_the_first_one_on(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    first = (await store.txn([], [Put(term_key(LOCK), b"s0"), Put(SYNC, b"1")])).revision
    second = (await store.txn([], [Delete(term_key(LOCK))])).revision
    recorder = Recorder(tmp_path / "h")
    recorder.write(Begin(version=VERSION))
    told: list[Revision] = []
    recorder.observe(told.append)
    watching = asyncio.create_task(recorder.watch(store))
    await recorder.until(second)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    recorder.close()
    await store.close()
    revisions = load(tmp_path / "h").revisions
    assert revisions == told
    key = f"terms/{LOCK}"
    assert [(r.number, set(r.changes)) for r in revisions] == [
        (first, {Change(key=key, holder="s0"), Change(key="sync")}),
        (second, {Change(key=key, deleted=True)}),
    ]


def test_fenced_writes_are_taken_from_the_audit_log(tmp_path: Path) -> None:
    def event(**annotations: str) -> str:
        return json.dumps(
            {
                "stageTimestamp": "2026-01-02T03:04:05.000000Z",
                "requestURI": "/podsched.v1/BindPods",
                "annotations": {f"podsched.io/{k}": v for k, v in annotations.items()},
            }
        )

    log = tmp_path / "audit"
    lines = [event(fence=f"{LOCK}:12", revisions="20,21"), event(fence=f"{LOCK}:12"), event()]
    log.write_text("\n".join([*lines, '{"half": ']))
    recorder = Recorder(tmp_path / "h")
    recorder.write(Begin(version=VERSION))
    recorder.fenced_writes("apiserver-0", log)
    recorder.fenced_writes("apiserver-1", tmp_path / "none")
    recorder.close()
    [write] = load(tmp_path / "h").writes
    assert (write.server, write.method, write.lock, write.term, write.revisions) == (
        "apiserver-0",
        "BindPods",
        LOCK,
        12,
        (20, 21),
    )
