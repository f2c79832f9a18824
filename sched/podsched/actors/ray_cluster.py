"""Join a Ray cluster in the background, watch the connection, and join again when it is lost.

Everything of Ray that can block runs in a daemon thread (joining takes 0.3 to 10 s, leaving a dead
cluster 5 s), and Ray is imported there too, so that a replica that never uses it never pays for
it. Ray's errors end here: callers get ``RayUnavailable`` and do the work themselves.

    apart --head and node answer, ray.init--> joined --head or node gone, ``lost()``--> leaving
      ^                                                                                   |
      '-----------------------------------------------------------------------------------'

Two settings of Ray make losing it harmless: without RAY_gcs_rpc_server_reconnect_timeout_s a driver
ends its process 60 s after the head is gone (seen with 2.60), and without
RAY_ENABLE_AUTO_CONNECT=0 a call between two connections would start a new cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from podsched.actors.ray_probe import answers, raylet_sockets, raylets_here, tls_of
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")

T = TypeVar("T")

NAMESPACE = "podsched"
#: Seconds: 31 years.
_FOREVER = str(10**9)
_DRIVER_ENVIRONMENT: Mapping[str, str] = {
    "RAY_gcs_rpc_server_reconnect_timeout_s": _FOREVER,
    "RAY_ENABLE_AUTO_CONNECT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
#: Max seconds to join, which takes 0.3 to 10, and to leave, which takes 5 from a dead cluster; both
#: block only a thread.
JOIN_TIMEOUT = 30.0
LEAVE_TIMEOUT = 15.0
#: Max seconds to find, create or kill an actor.
CONTROL_TIMEOUT = 20.0
#: Seconds between two probes of the head's port, and for one of them.
WATCH_PERIOD = 1.0
#: Seconds that a healthy process of Ray may take to answer, also on a busy machine.
PROBE_TIMEOUT = 5.0
#: Probes in a row that must fail, because a head under load may miss one.
MISSED_PROBES = 2


class RayUnavailable(Exception):
    """There is no cluster, or an actor died or timed out; the caller does the work locally."""


class LaterTerm(RayUnavailable):
    """The actor follows a later leader, so this leader's term is over."""


class RayMetrics(Protocol):
    """The metrics of Ray."""

    def ray_call(self, call: str, result: str, seconds: float) -> None: ...
    def ray_actor_replaced(self, actor: str) -> None: ...
    def evaluator_mode(self, mode: str) -> None: ...


async def in_daemon_thread(function: Callable[[], T], name: str) -> T:
    """Run a function that may block for ever; unlike an executor's thread, it never delays exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(done.set_result, function())
        except BaseException as exc:
            tell = partial(done.set_exception, exc)

        def finish() -> None:
            if not done.done():
                tell()

        # The loop may be closed by then.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


class RayCluster:
    """The process's connection to Ray; ``joined`` is set while actors can be called."""

    def __init__(self, address: str, retry_period: float, metrics: RayMetrics) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS", "")
        self.metrics = metrics
        self.joined = asyncio.Event()
        self._retry_period = retry_period
        self._lost = asyncio.Event()
        self._ray: Any = None
        self._raylet = ""
        self.cpus = 1

    async def run(self) -> None:
        """Join, watch and join again, until cancelled."""
        try:
            while True:
                # Without an answer of the head, if there is one to ask, joining would block.
                served = not _is_plain(self.address)
                served = served or await answers(self.address, PROBE_TIMEOUT, tls_of())
                if served and await self._join():
                    await self._watch()
                    await self._leave()
                await asyncio.sleep(self._retry_period)
        finally:
            self.joined.clear()

    def lost(self, reason: str) -> None:
        """Leave the cluster and join again, because a caller found it unusable."""
        if self.joined.is_set() and not self._lost.is_set():
            _log.warning("The Ray cluster is lost", address=self.address, reason=reason)
            self._lost.set()

    async def close(self) -> None:
        """Leave the cluster; its detached actors remain for the next leader."""
        if self._ray is not None:
            await self._leave()

    async def _join(self) -> bool:
        try:
            async with asyncio.timeout(JOIN_TIMEOUT):
                await _check_nodes(self.address)
                init = in_daemon_thread(lambda: _init(self.address), "join ray")
                self._ray, self.cpus = await init
                self._raylet = _raylet_of(self._ray)
            _take_back_sigterm()
        except Exception as exc:
            # ray.init raises errors of many layers, and all of them only mean that it failed.
            reason = str(exc) or repr(exc)
            _log.warning("Joining the Ray cluster failed", address=self.address, error=reason)
            await self._leave()
            return False
        _log.info("Joined the Ray cluster", address=self.address, cpus=self.cpus)
        self._lost.clear()
        self.joined.set()
        return True

    async def _watch(self) -> None:
        missed = 0
        while missed < MISSED_PROBES and not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WATCH_PERIOD):
                    await self._lost.wait()
            missed = 0 if await _is_open(self.address) else missed + 1
            if not self._node_runs():
                self.lost("its node here has ended")
        self.lost("its head does not answer")

    def _node_runs(self) -> bool:
        """Return whether the node that this process has joined runs, as far as is known.

        A head that starts anew between two probes of its port is another cluster, and a standby
        would not notice before it leads.
        """
        sockets = raylet_sockets() if self._raylet else None
        return sockets is None or self._raylet in sockets

    async def _leave(self) -> None:
        self.joined.clear()
        ray, self._ray = self._ray, None

        def shut_down() -> None:
            # After a failed ray.init a partial connection may remain.
            import ray as imported

            (ray or imported).shutdown()

        try:
            async with asyncio.timeout(LEAVE_TIMEOUT):
                await in_daemon_thread(shut_down, "leave ray")
        except Exception as exc:
            _log.warning("Leaving the Ray cluster failed", error=str(exc))

    async def find(self, name: str) -> Any | None:
        """Return the handle of a named actor, None when there is none. Raises RayUnavailable."""

        def find(ray: Any) -> Any | None:
            try:
                return ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None

        return await self._control("find an actor", find)

    async def create(self, name: str, actor_class: type, arguments: tuple[Any, ...]) -> Any:
        """Create a detached actor. Raises RayUnavailable, also when the name is taken."""

        def create(ray: Any) -> Any:
            remote = ray.remote(actor_class).options(
                name=name, namespace=NAMESPACE, lifetime="detached", num_cpus=0
            )
            return remote.remote(*arguments)

        return await self._control("create an actor", create)

    async def kill(self, handle: Any) -> None:
        """End an actor. Raises RayUnavailable."""
        await self._control("kill an actor", lambda ray: ray.kill(handle, no_restart=True))

    async def _control(self, what: str, function: Callable[[Any], T]) -> T:
        ray = self._ray
        if ray is None or not self.joined.is_set():
            raise RayUnavailable("not joined to a Ray cluster")
        try:
            async with asyncio.timeout(CONTROL_TIMEOUT):
                return await in_daemon_thread(lambda: function(ray), f"ray: {what}")
        except Exception as exc:
            raise RayUnavailable(f"{what}: {exc or type(exc).__name__}") from exc

    async def call(self, method: Any, *arguments: Any, timeout: float, name: str) -> Any:
        """Await a call of an actor's method. Raises RayUnavailable after ``timeout`` seconds."""
        if not self.joined.is_set():
            raise RayUnavailable("not joined to a Ray cluster")
        began = time.monotonic()
        result = "error"
        try:
            async with asyncio.timeout(timeout):
                answer = await method.remote(*arguments)
            result = "ok"
            return answer
        except TimeoutError as exc:
            result = "timeout"
            raise RayUnavailable(f"{name}: no answer within {timeout:g} s") from exc
        except Exception as exc:
            raise RayUnavailable(f"{name}: {type(exc).__name__}: {str(exc)[:200]}") from exc
        finally:
            self.metrics.ray_call(name, result, time.monotonic() - began)


def _is_plain(address: str) -> bool:
    """Return whether the address is a host and port, and not "auto" or that of a Ray Client."""
    return re.fullmatch(r"[^/]+:[0-9]+", address) is not None


async def _is_open(address: str) -> bool:
    """Return whether the head's port is open.

    This does not ask the head: if it hangs, calls time out, and leaving would not help.
    """
    if not _is_plain(address):
        return True
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(WATCH_PERIOD):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def set_driver_environment() -> None:
    """Set the variables that Ray reads when it is imported."""
    for name, value in _DRIVER_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


async def _check_nodes(address: str) -> None:
    """Raise RayUnavailable unless this machine has Ray nodes to join, and all of them answer.

    Without a node, ray.init does not raise but ends the process (seen with 2.60). If a node
    hangs, ray.init blocks the process.
    """
    set_driver_environment()
    logging.getLogger("ray").setLevel(logging.ERROR)
    sockets = raylet_sockets()
    if sockets is None or not _is_plain(address):
        return
    missing = f"no Ray node runs here: ray start --address={address}"
    if not sockets:
        raise RayUnavailable(missing)
    find = partial(raylets_here, address, sockets)
    nodes = await in_daemon_thread(find, "find ray's nodes")
    if not nodes:
        raise RayUnavailable(missing)
    for node in nodes:
        if not await answers(node, PROBE_TIMEOUT, tls_of()):
            raise RayUnavailable(f"the Ray node at {node} does not answer")


def _take_back_sigterm() -> None:
    """Set the handler of SIGTERM again; Ray has put one before it that prints a stack."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)
        signal.siginterrupt(signal.SIGTERM, False)  # as asyncio set it


def _raylet_of(ray: Any) -> str:
    """Return the socket of the joined raylet; "" if it is not found here, as with a Ray Client."""
    with contextlib.suppress(AttributeError):
        raylet: str = ray._private.worker.global_worker.node.raylet_socket_name
        return raylet if raylet in (raylet_sockets() or ()) else ""
    return ""


def _init(address: str) -> tuple[Any, int]:
    import ray as imported

    ray: Any = imported
    ray.init(
        address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.ERROR,
    )
    # The first value that Ray serializes makes it import pydantic and others: here, and not in the
    # event loop of a new leader, which stood still for 0.1 to 0.4 s.
    ray.put(None)
    # Once the head is gone, Ray's thread for error messages polls it without a pause: half a core
    # in each replica until it had left (2.60). With this event set, the thread ends instead.
    with contextlib.suppress(AttributeError):
        ray._private.worker.global_worker.threads_stopped.set()
    return ray, max(1, int(ray.cluster_resources().get("CPU", 1)))
