"""Saves snapshots of etcd from a running member, verifies them and restores them.

A snapshot is a member's whole database as etcd's maintenance API streams it, followed by its
SHA-256. Guarantees: a file under its final name is complete and its checksum is correct; a restore
creates a new directory, or fails and leaves none behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
from aetcd.rpc import rpc_pb2

from podsched.lib.processes import send_signal
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions, find_etcd
from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.errors import EmbeddedEtcdError, StoreError, Unavailable
from podsched.serve.store.translate import translate

_DIGEST = hashlib.sha256().digest_size
#: A database consists of pages of at least this size; the bytes beyond are the checksum.
_PAGE = 512
_CHUNK = 1 << 20


class SnapshotError(Exception):
    """An incomplete or damaged snapshot, or a failed restore."""


async def save_snapshot(
    options: EtcdOptions, file: Path, progress: Callable[[int], None] = lambda _: None
) -> int:
    """Save a snapshot of the first member that answers to a new file; return its size in bytes.

    progress: called with the bytes so far. Raises StoreError, SnapshotError, OSError.
    """
    _check_absent(file, "choose another name")
    part = file.with_name(f"{file.name}.part")
    failure: StoreError = Unavailable("no etcd endpoints given")
    try:
        for endpoint in options.endpoints:
            try:
                await _stream(endpoint, options, part, progress)
            except Unavailable as error:
                failure = error
                continue
            size = check_snapshot(part)
            part.rename(file)
            return size
    finally:
        part.unlink(missing_ok=True)
    raise failure


def _check_absent(path: Path, advice: str) -> None:
    if path.exists():
        raise SnapshotError(f"{path} exists already: {advice}")


async def _stream(
    endpoint: str, options: EtcdOptions, part: Path, progress: Callable[[int], None]
) -> None:
    endpoints = Endpoints(replace(options, endpoints=(endpoint,)))
    connection = endpoints.current
    try:
        if not await connection.ready(options.dial_timeout):
            raise Unavailable(f"no connection to etcd at {endpoint}")
        # Only the token: a member without a leader can be saved, too, and may be all that is left.
        metadata = await endpoints.token.metadata(connection)
        token = tuple((key, value) for key, value in metadata if key == "token")
        request, written = rpc_pb2.SnapshotRequest(), 0
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            async for answer in connection.maintenance.Snapshot(request, metadata=token):
                out.write(answer.blob)
                written += len(answer.blob)
                progress(written)
            out.flush()
            os.fsync(out.fileno())
    except grpc.aio.AioRpcError as error:
        raise translate(error, safe=True) from error
    finally:
        await endpoints.close()


def check_snapshot(file: Path) -> int:
    """Return the size of a complete file with a correct checksum. Raises SnapshotError."""
    size = file.stat().st_size
    if size <= _DIGEST or size % _PAGE != _DIGEST:
        raise SnapshotError(f"{file} is not a complete snapshot: its size is {size} bytes")
    digest, left = hashlib.sha256(), size - _DIGEST
    with file.open("rb") as content:
        while left:
            chunk = content.read(min(_CHUNK, left))
            digest.update(chunk)
            left -= len(chunk)
        if content.read() != digest.digest():
            raise SnapshotError(f"{file} is damaged: its checksum is wrong")
    return size


async def restore_snapshot(file: Path, data_dir: Path) -> None:
    """Create the data directory of a new one-member cluster from a snapshot.

    Raises SnapshotError, EmbeddedEtcdError when there is no etcd on this machine, OSError.
    """
    check_snapshot(file)
    _check_absent(data_dir, "restore into a new directory")
    etcdutl = str(_etcdutl())
    data_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Under its final name, etcd would start with the part that is there after a crash.
    with tempfile.TemporaryDirectory(prefix=".restoring-", dir=data_dir.parent) as directory:
        await _restore(etcdutl, file, Path(directory) / "etcd")
        (Path(directory) / "etcd").rename(data_dir)


async def _restore(etcdutl: str, file: Path, data_dir: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        etcdutl,
        "snapshot",
        "restore",
        str(file),
        f"--data-dir={data_dir}",
        "--name=podsched",
        "--initial-cluster=podsched=http://127.0.0.1:2380",
        "--initial-advertise-peer-urls=http://127.0.0.1:2380",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        send_signal(process, signal.SIGKILL)
        await process.wait()
        raise
    if process.returncode:
        lines = said.decode(errors="replace").strip().splitlines()
        raise SnapshotError(f"etcdutl cannot restore {file}: {lines[-1] if lines else 'no reason'}")


def _etcdutl() -> Path:
    """Find etcdutl of the etcd in use. Raises EmbeddedEtcdError."""
    beside = find_etcd().with_name("etcdutl")
    if beside.is_file():
        return beside
    if found := shutil.which("etcdutl"):
        return Path(found)
    raise EmbeddedEtcdError("no etcdutl found beside etcd: install it on PATH (etcd 3.5 or later)")


@dataclass(slots=True)
class Contents:
    """The contents of a snapshot: its keys without the root prefix, and its last revision."""

    revision: int
    values: list[tuple[str, bytes]]

    def count(self, name_of: Callable[[str], str]) -> Counter[str]:
        """Return the number of keys by name."""
        return Counter(name_of(key) for key, _ in self.values)


async def contents_of(
    file: Path, root: str, username: str | None = None, password: str | None = None
) -> Contents:
    """Restore a snapshot temporarily, and return all keys below ``root`` with their values.

    ``username``, ``password``: of etcd's users, which are in the snapshot, too.

    Raises SnapshotError, EmbeddedEtcdError, StoreError, OSError.
    """
    from podsched.serve.store.etcd import connect  # only this function needs it

    with tempfile.TemporaryDirectory(prefix="podsched-snapshot-") as directory:
        data_dir = Path(directory) / "etcd"
        await restore_snapshot(file, data_dir)
        etcd = EmbeddedEtcd(EmbeddedEtcdOptions(data_dir, fsync=False))
        await etcd.start()
        try:
            store = await connect(
                EtcdOptions((etcd.endpoint,), username=username, password=password)
            )
            try:
                page = await store.range(root)
                return Contents(page.revision, [(kv.key, kv.value) for kv in page.kvs])
            finally:
                await store.close()
        finally:
            await etcd.stop()
