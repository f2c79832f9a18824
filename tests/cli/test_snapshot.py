"""``sched snapshot``: what is said of a snapshot, and what is refused."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from pathlib import Path

import pytest

from podsched.lib.run_directory import RunDirectory
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.etcd import connect
from podsched.serve.store.protocol import Put
from support.api_objects import pod
from support.commands import Commands


def test_what_is_no_snapshot_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no snapshot")
    done = Commands()("snapshot", "restore", str(tmp_path / "text"), str(tmp_path / "data"))
    assert (done.code, done.out) == (1, "")
    assert "is not a complete snapshot: its size is 11 bytes" in done.err
    assert not (tmp_path / "data").exists()
    done = Commands()("snapshot", "status", str(tmp_path / "none"))
    assert done.code == 2
    assert "no such file" in done.err


def test_a_ca_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("no certificate")
    words = ("--etcd-endpoints", "127.0.0.1:1", "--etcd-ca", str(tmp_path / "ca.crt"))
    done = Commands()("snapshot", "save", str(tmp_path / "saved.db"), *words)
    message = f"error: {tmp_path / 'ca.crt'}: no certificate in PEM format\n"
    assert (done.code, done.err) == (1, message)


def test_the_etcd_of_a_sched_up_that_runs_is_saved_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCHED_ETCD_ENDPOINTS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second = RunDirectory("up", tmp_path), RunDirectory("up", tmp_path)
    save = ("snapshot", "save", str(tmp_path / "saved.db"))
    try:
        (first.path / "etcd-endpoint").write_text("127.0.0.1:1\n")
        assert "127.0.0.1:1" in Commands()(*save).err
        named = Commands()(*save, "--etcd-endpoints", "127.0.0.1:2").err
        assert "127.0.0.1:2" in named
        (second.path / "etcd-endpoint").write_text("127.0.0.1:3\n")
        done = Commands()(*save)
        assert done.code == 2
        assert "several sched up run: choose one with --etcd-endpoints: 127.0.0.1:" in done.err
    finally:
        first.remove()
        second.remove()


def test_a_command_that_is_terminated_tidies_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidied_up: list[bool] = []

    async def restored(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            tidied_up.append(True)
            raise

    (tmp_path / "saved.db").touch()
    monkeypatch.setattr("podsched.cli.snapshot.restore_snapshot", restored)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        done = Commands()("snapshot", "restore", str(tmp_path / "saved.db"), str(tmp_path / "data"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (done.code, tidied_up) == (143, [True])


@pytest.mark.integration
async def test_a_snapshot_says_what_it_holds_and_is_restored_for_sched_up(tmp_path: Path) -> None:
    """An unreadable object is told, and a failure."""
    sched, file = Commands(), str(tmp_path / "saved.db")
    async with EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "first", fsync=False)) as etcd:
        store = await connect(EtcdOptions((etcd.endpoint,)))
        value = pod("web").SerializeToString()
        await store.txn([], [Put("/podsched/objects/pods/default/web", value)])
        told = await asyncio.to_thread(
            sched.ok, "snapshot", "save", file, "--etcd-endpoints", etcd.endpoint
        )
        assert "the checksum is right" in told
        assert told.splitlines()[-1].split() == ["Pod", "1"]
        await store.txn([], [Put("/podsched/objects/pods/default/bad", b"no pod")])
        done = await asyncio.to_thread(
            sched, "snapshot", "save", f"{file}.2", "--etcd-endpoints", etcd.endpoint
        )
        assert done.code == 1
        assert "objects that cannot be read: Pod 1" in done.err
        await store.close()
    await asyncio.to_thread(sched.ok, "snapshot", "restore", file, str(tmp_path / "data"))
    async with EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "data" / "etcd", fsync=False)) as etcd:
        store = await connect(EtcdOptions((etcd.endpoint,)))
        found = (await store.get("/podsched/objects/pods/default/web")).kv
        await store.close()
    assert found is not None and found.value == value
