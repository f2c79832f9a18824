"""``sched record``: record the changes of a running cluster in a file, for ``sched replay``."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from podsched import __version__
from podsched.api.kinds import KINDS
from podsched.cli.client import ServerFlags, with_client
from podsched.cli.errors import USAGE, fail, warn
from podsched.cli.flags import takes_flags
from podsched.cli.kubernetes import access_or_fail, with_cluster
from podsched.cli.options import seconds_or_fail
from podsched.cli.output import say
from podsched.config.flags import flag
from podsched.config.load import to_public
from podsched.lab.replay.capture import INTERRUPTED, RECORDED_KINDS, TIME_IS_UP, Capture
from podsched.lab.replay.decision_capture import DecisionCapture
from podsched.lab.replay.recording import RecordingWriter
from podsched.lib.counted import counted
from podsched.lib.tasks import in_background
from podsched.serve.client.api_client import ApiClient

if TYPE_CHECKING:
    from podsched.serve.kube.access import ClusterAccess
    from podsched.serve.kube.http import KubeHttp


@dataclass(frozen=True, slots=True)
class _Flags(ServerFlags):
    duration: str = flag("10m", "TIME", names="--for")
    """Time to record, such as 10m or 2h."""
    config: Path | None = flag(None, "FILE")
    """KubeSchedulerConfiguration of the cluster's scheduler, to store in the recording. Default:
    the default configuration."""
    kubeconfig: Path | None = flag(None, "FILE")
    """Record the Kubernetes cluster of this kubeconfig's current context."""
    max_size: int = flag(1024, "MIB", min=1)
    """Max size of the file."""


@takes_flags
def record(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; gzipped JSON.")],
    given: _Flags,
) -> None:
    """Record the changes in a cluster, for sched replay.

    Writes all objects that scheduling reads, then their changes with times,
    until the time is over or Ctrl-C. Environment variables, commands and probes
    of containers are left out. sched replay FILE shows what another configuration would do.
    """
    seconds = seconds_or_fail("--for", given.duration)
    if seconds <= 0:
        fail("--for: must be more than 0", USAGE)
    header = {"time": time.time(), "podsched": __version__, "source": given.server or "default"}
    if given.config is not None:
        from podsched.cli.config import read_config

        header["configuration"] = to_public(read_config(given.config))
    access = access_or_fail(given.kubeconfig) if given.kubeconfig is not None else None
    try:
        writer = RecordingWriter(file, header)
    except FileExistsError:
        fail(f"{file}: the file exists; name another one, or remove it first", USAGE)
    recorder = _Recorder(file, writer, seconds, given.max_size << 20)
    try:
        if access is None:
            with_client(
                given.server, lambda client: recorder.run(lambda c: c.watch(client), client)
            )
        else:
            _record_kubernetes(access, recorder)
    except BaseException:
        # What has begun can be replayed up to where it broke off.
        if not (recorder.done or recorder.synced.is_set()):
            file.unlink(missing_ok=True)
        writer.abandon()
        raise


@dataclass(slots=True)
class _Recorder:
    """Makes one recording and prints messages about it."""

    file: Path
    writer: RecordingWriter
    seconds: float
    max_bytes: int
    done: bool = False
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when all objects to begin with are written."""

    async def run(
        self,
        work: Callable[[Capture], Coroutine[Any, Any, None]],
        decisions: ApiClient | None = None,
    ) -> None:
        """Record until the end and print a summary; exit if the recording ended early."""
        began = time.monotonic()

        def clock() -> float:
            return time.monotonic() - began

        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        capture = Capture(self.writer, clock, most_bytes=self.max_bytes)
        self.synced = capture.synced
        say(f"Recording into {self.file}; Ctrl-C ends it.", error=True)
        progress, following = capture.progress, None
        if decisions is None:
            why = await capture.run(work(capture), self.seconds, stop)
        else:
            following = DecisionCapture(decisions, self.writer, capture, clock)
            async with in_background(following.run(), "decisions"):
                why = await capture.run(work(capture), self.seconds, stop, following.finish)
        self.writer.close(clock(), why, progress.revision)
        self.done = True
        say(
            f"{self.file}: {counted(progress.objects, 'object')}, "
            f"{counted(progress.changes, 'change')} and "
            f"{counted(progress.decisions, 'decision')} in {clock():,.0f} s, "
            f"{self.writer.size / 1024:,.0f} KiB"
        )
        if following is not None and following.problem:
            warn(f"decisions are missing: {following.problem}")
        if why not in (TIME_IS_UP, INTERRUPTED):
            fail(f"the recording ended early: {why}")


def _record_kubernetes(access: ClusterAccess, recorder: _Recorder) -> None:
    from podsched.serve.kube.informer import KubeInformer
    from podsched.serve.kube.lists import list_all

    async def work(http: KubeHttp) -> None:
        await list_all(http, KINDS["Node"])  # an informer would wait for the server
        informer = KubeInformer(http, RECORDED_KINDS)
        await recorder.run(lambda capture: capture.follow(informer))

    with_cluster(access, work)
