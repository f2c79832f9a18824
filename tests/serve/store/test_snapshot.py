"""Snapshots of a real etcd: saved, checked, restored; damaged files are refused."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import grpc
import pytest
from aetcd.rpc import rpc_pb2, rpc_pb2_grpc

from podsched.serve.store import snapshot
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.errors import Unavailable
from podsched.serve.store.etcd import connect
from podsched.serve.store.protocol import Put
from podsched.serve.store.snapshot import (
    SnapshotError,
    check_snapshot,
    contents_of,
    restore_snapshot,
    save_snapshot,
)
from support.eventually import eventually


def complete(path: Path, content: bytes = b"x" * 1024) -> Path:
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path


def etcdutl(directory: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    """Let another program stand in for etcdutl; ``does``: in the shell, to the directory $dir."""
    program = directory / "etcdutl"
    find = "for word; do case $word in --data-dir=*) dir=${word#*=};; esac; done"
    program.write_text(f"#!/bin/sh\n{find}\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(snapshot, "_etcdutl", lambda: program)


def test_a_file_that_is_cut_off_or_damaged_is_refused(tmp_path: Path) -> None:
    good = complete(tmp_path / "good")
    check_snapshot(good)
    cut = tmp_path / "cut"
    cut.write_bytes(good.read_bytes()[:-40])
    with pytest.raises(SnapshotError, match="not a complete snapshot"):
        check_snapshot(cut)
    bad = tmp_path / "bad"
    bad.write_bytes(b"y" + good.read_bytes()[1:])
    with pytest.raises(SnapshotError, match="its checksum is wrong"):
        check_snapshot(bad)


async def test_a_snapshot_replaces_no_file_and_a_restore_no_directory(tmp_path: Path) -> None:
    good = complete(tmp_path / "good")
    with pytest.raises(SnapshotError, match="exists already"):
        await save_snapshot(EtcdOptions(), good)
    with pytest.raises(SnapshotError, match="restore into a new directory"):
        await restore_snapshot(good, tmp_path)


@pytest.mark.integration
async def test_a_restore_that_is_cancelled_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = tmp_path / "restored"
    etcdutl(tmp_path, monkeypatch, 'mkdir "$dir"; touch "$dir/half"; exec sleep 600')
    good = complete(tmp_path / "good")
    restoring = asyncio.create_task(restore_snapshot(good, restored))
    await eventually("a part is restored", lambda: [*tmp_path.rglob("half")] != [])
    assert not restored.exists()  # or a crash would leave it there for etcd
    restoring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await restoring
    assert sorted(os.listdir(tmp_path)) == ["etcdutl", "good"]


@pytest.mark.integration
async def test_a_restore_that_fails_removes_nothing_that_another_one_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restored = tmp_path / "restored"
    etcdutl(tmp_path, monkeypatch, f"mkdir -p {restored}/member; exit 1")
    with pytest.raises(SnapshotError):
        await restore_snapshot(complete(tmp_path / "good"), restored)
    assert (restored / "member").exists()


@pytest.mark.integration
async def test_what_was_saved_is_there_again_after_a_restore(tmp_path: Path) -> None:
    """Another member is asked when one is not there; nothing is left behind when none is."""
    file = tmp_path / "snapshot.db"
    async with EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "first", fsync=False)) as etcd:
        store = await connect(EtcdOptions((etcd.endpoint,)))
        for number in range(3):
            await store.txn([], [Put(f"/podsched/objects/pods/default/p{number}", b"value")])
        await store.close()
        size = await save_snapshot(EtcdOptions(("127.0.0.1:1", etcd.endpoint)), file)
    assert size == file.stat().st_size
    assert file.stat().st_mode & 0o777 == 0o600
    contents = await contents_of(file, "/podsched/")
    assert [key[-2:] for key, _ in contents.values] == ["p0", "p1", "p2"]
    with pytest.raises(Unavailable):
        await save_snapshot(EtcdOptions(("127.0.0.1:1",), dial_timeout=0.5), tmp_path / "none")
    assert sorted(os.listdir(tmp_path)) == ["first", "snapshot.db"]


@pytest.mark.integration
async def test_a_snapshot_with_users_of_etcd_is_read_by_one_of_them(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.db"
    async with EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "first", fsync=False)) as etcd:
        async with grpc.aio.insecure_channel(etcd.endpoint.removeprefix("http://")) as channel:
            auth = rpc_pb2_grpc.AuthStub(channel)
            await auth.UserAdd(rpc_pb2.AuthUserAddRequest(name="root", password="secret"))
            await auth.UserGrantRole(rpc_pb2.AuthUserGrantRoleRequest(user="root", role="root"))
            await auth.AuthEnable(rpc_pb2.AuthEnableRequest())
        options = EtcdOptions((etcd.endpoint,), username="root", password="secret")
        store = await connect(options)
        await store.txn([], [Put("/podsched/objects/pods/default/p0", b"value")])
        await store.close()
        await save_snapshot(options, file)
    contents = await contents_of(file, "/podsched/", "root", "secret")
    assert [key[-2:] for key, _ in contents.values] == ["p0"]
