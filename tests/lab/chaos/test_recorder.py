"""What is recorded of etcd, and of what API servers wrote for whom."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from podsched.api.etcd_keys import SYNC, term_key
from podsched.lab.chaos.history import VERSION, load
from podsched.lab.chaos.recorder import Recorder
from podsched.lab.chaos.records import Begin, Change, FencedWrite, Revision
from podsched.serve.store.protocol import Delete, Put
from podsched.testing.memory_store import MemoryStore
from support.chaos_history import LOCK


async def test_every_revision_of_etcd_is_recorded_whole_from_the_first_one_on(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    first = (await store.txn([], [Put(term_key(LOCK), b"s0"), Put(SYNC, b"1")])).revision
    second = (await store.txn([], [Delete(term_key(LOCK))])).revision
    told: list[Revision] = []
    recorder = Recorder(tmp_path / "h", told.append)
    recorder.write(Begin(version=VERSION))
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
    def event(status: str = "OK", **annotations: str) -> str:
        fields = {"grpc-status": status, **annotations}
        return json.dumps(
            {
                "stageTimestamp": "2026-01-02T03:04:05.000000Z",
                "requestURI": "/podsched.v1/BindPods",
                "annotations": {f"podsched.io/{k.replace('_', '-')}": v for k, v in fields.items()},
            }
        )

    log, fence = tmp_path / "audit", f"{LOCK}:12"
    lines = [
        event(fence=fence, items="3", first_items="ns/a,ns/b", revisions="20,21"),
        event("CANCELLED", fence=fence, items="1", first_items="ns/a"),
        event(items="1", first_items="ns/a"),
    ]
    log.write_text("\n".join([*lines, '{"half": ']))
    recorder = Recorder(tmp_path / "h")
    recorder.write(Begin(version=VERSION))
    recorder.fenced_writes("apiserver-0", log)
    recorder.fenced_writes("apiserver-1", tmp_path / "none")
    recorder.close()
    done, lost = (write.model_copy(update={"at": 0.0}) for write in load(tmp_path / "h").writes)
    assert done == FencedWrite(
        at=0.0,
        server="apiserver-0",
        method="BindPods",
        lock=LOCK,
        term=12,
        pods=("ns/a", "ns/b"),
        more=1,
        revisions=(20, 21),
    )
    assert (lost.pods, lost.more, lost.revisions, lost.unheard) == (("ns/a",), 0, (), True)
