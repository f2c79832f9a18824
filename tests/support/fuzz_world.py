"""An API server that is attacked, and everything that lives on it: a leader, an agent, the client.

The server is the real one on a store in memory, over real gRPC. The leader is a replica's:
informer, state, scheduling and controllers of a term. What any of them makes of an attack is in
``findings``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any
from unittest.mock import patch

import aiohttp
import grpc
import yaml
from structlog.testing import capture_logs
from yarl import URL

from podsched.api.etcd_keys import term_key
from podsched.api.kinds import KINDS, WATCHED_KINDS
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, object_key
from podsched.app.term_runner import TermRunner
from podsched.app.term_work import ControllerParts, RunnerParts
from podsched.ask.decisions.log import open_log
from podsched.cli.describe import description
from podsched.cli.printers import TablePrinter
from podsched.config.load import default_config
from podsched.config.settings import AgentSettings, ControllerSettings, SchedulerSettings
from podsched.lib.tasks import TaskSet
from podsched.registry import factories
from podsched.serve.agent.agent import Agent
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import Conflict, NotFound
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.serve.server import replicas
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.serve.store.protocol import Put
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import AgentMetrics, ControllerMetrics
from podsched.telemetry.tracing import Tracer
from podsched.term.cycle.cycle_metrics import CycleMeter
from podsched.term.state import build_state
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import LOCK
from support.api_servers import start_api_server
from support.eventually import eventually
from support.fuzz_http import HttpRequest
from support.fuzz_replicas import Pretenders, answering
from support.fuzz_requests import ANSWER, METHODS, SEEDS, Fuzzer, FuzzRequest
from support.no_actors import NoActors
from support.processor_time import exceeds

#: No answer to any request: the server is at fault, or gone.
FAULTS = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "UNIMPLEMENTED", "UNAVAILABLE", "DEADLINE_EXCEEDED")
#: What may be a matter of time.
_LATE = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
#: What the server says of a fault of its own. Other words may be those of a program that says to
#: be a replica.
_INCIDENT = "internal error "
_FAULT_NUMBERS = (2, 4, 12, 13, 14, 15)
#: Seconds of processor time that a request may take, whatever is in it.
MOST_SECONDS = 2.0
_DEADLINE = 120.0
#: Who is asked and does not answer should not cost the attack ten seconds; who answers may be on a
#: machine with much else to do.
_ANSWER_SECONDS = 5.0
#: Seconds for which a rude client waits for an answer.
_RUDE_SECONDS = 0.1
ALREADY_EXISTS = 6
_BUILT_IN = {"Namespace", "PriorityClass"}


class FuzzWorld:
    """See the module; made by ``fuzz_world``."""

    def __init__(self, server: ApiServer, client: ApiClient, term: int) -> None:
        self.term = term
        self.codes: Counter[str] = Counter()
        self.findings: list[str] = []
        self._server = server
        self._client = client
        limit = aiohttp.ClientTimeout(total=_DEADLINE)
        self._http = aiohttp.ClientSession(timeout=limit, auto_decompress=True)
        self._channel = grpc.aio.insecure_channel(
            server.address, options=[("grpc.max_receive_message_length", -1)]
        )
        self.pretenders = Pretenders(self._channel, Fuzzer(term))
        self._informer = client.informer(WATCHED_KINDS)
        self._everything = client.informer(tuple(KINDS))
        self._tasks = TaskSet("the readers")
        decisions = open_log("memory", 1 << 20, "replica-1", MetricRegistry())
        assert decisions is not None
        self._decisions = decisions
        parts = RunnerParts(
            "replica-1",
            default_config(),
            SchedulerSettings(identity="replica-1", audit_period=0.05),
            ControllerParts(ControllerSettings(node_monitor_period=0.1, pod_gc_period=0.1), client),
            factories(),
            client,
            self._informer,
            NoActors(client),
            None,
            CycleMeter(MetricRegistry(), Tracer()),
            ControllerMetrics(MetricRegistry()),
            decisions=self._decisions,
        )
        self.runner = TermRunner(parts, self._tasks)
        self._agent = Agent(
            client,
            AgentSettings(adopt=True, heartbeat_period=0.2, provisioners=("hollow.example",)),
            metrics=AgentMetrics(MetricRegistry()),
        )
        self._readers: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Store the seeds, and have everyone read them."""
        # What pods and groups refer to comes first.
        for later in (False, True):
            some = [s for s in SEEDS if (s.DESCRIPTOR.name in ("Pod", "PodGroup")) == later]
            for result in await self._client.create_many(some):
                assert result.code in (0, ALREADY_EXISTS), result.message
        tasks = self._tasks
        tasks.start(self._informer.run(self.runner.handle), "informer", endless=True)
        tasks.start(self._everything.run(_ignore), "informer of all kinds", endless=True)
        tasks.start(self.runner.recorder.run(), "events", endless=True)
        answers = answering(
            self._server.address, self.runner, self._informer, self._decisions, self.term
        )
        tasks.start(answers.run(), "answers", endless=True)
        self._decisions.start()
        self._readers = asyncio.create_task(tasks.run())
        self.runner.start_term(v1.Fence(lock=LOCK, term=self.term), lambda: None)
        await self._agent.start()

    async def send(self, request: FuzzRequest) -> None:
        """Send a request and judge the answer."""
        began, may_pretend = time.process_time(), self.pretenders.answer
        code, detail = await self._answer(request)
        took = time.process_time() - began
        asked = METHODS[request.method].containing_service.name == "Scheduling"
        if asked and request.method != ANSWER and code in _LATE:
            # On a busy machine a replica is silent, or does not answer, for seconds.
            code, detail = await self._answer(request)
        self.codes[code] += 1
        may_pretend = may_pretend or self.pretenders.answer
        blamed = asked and may_pretend and not detail.startswith(_INCIDENT)
        if code in FAULTS and not blamed:
            self._finding(f"{code}: {detail}", request)
        if exceeds(took, MOST_SECONDS):
            self._finding(f"{took:.1f} s of processor time", request)

    async def _answer(self, request: FuzzRequest) -> tuple[str, str]:
        if request.method == ANSWER:
            return await self.pretenders.add(request.raw)
        if METHODS[request.method].server_streaming:
            return await self._stream(request)
        return await self._unary(request)

    async def send_http(self, request: HttpRequest) -> None:
        """Send a request to Kubernetes' REST API and judge the answer."""
        began = time.process_time()
        url = URL(f"http://127.0.0.1:{self._server.kube_port}{request.target}", encoded=True)
        # aiohttp warns of more bytes than that, and warnings are errors.
        is_large = len(request.body or b"") > 1 << 20
        body = BytesIO(request.body) if is_large else request.body
        try:
            async with self._http.request(
                request.method, url, data=body, headers=request.headers
            ) as answer:
                status, text = answer.status, await answer.text(errors="replace")
        except (aiohttp.ClientError, TimeoutError) as error:
            # Where a head cannot be read, it is not known that no body may follow the answer's.
            unread = request.method == "HEAD" and isinstance(error, aiohttp.ClientResponseError)
            status, text = 400 if unread else 0, repr(error)
        took = time.process_time() - began
        self.codes[str(status)] += 1
        # What Kubernetes answers with 500 although the client is at fault has no reason. There is
        # no kubelet here to which requests could be passed on.
        if status == 0 or (status >= 500 and not _is_meant(text)):
            self._finding(f"{status}: {text[:1000]}", request)
        if 200 <= status < 300 and request.is_ambiguous:
            self._finding("done, though it may have been meant as a dry run", request)
        if exceeds(took, MOST_SECONDS):
            self._finding(f"{took:.1f} s of processor time", request)

    async def send_rudely(self, sent: bytes) -> None:
        """Send whatever bytes to Kubernetes' REST API, read little of the answer, and go."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.kube_port)
        with contextlib.suppress(ConnectionError):
            writer.write(sent)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RUDE_SECONDS):
                    await writer.drain()
                    head, _, text = (await reader.read(1 << 16)).partition(b"\r\n\r\n")
                    # See ``send_http``.
                    if head[9:10] == b"5" and not _is_meant(text.decode(errors="replace")):
                        self._finding(f"{head[9:12]!r} {text[:1000]!r} for {sent[:3000]!r}")
        writer.transport.abort()

    async def _unary(self, request: FuzzRequest) -> tuple[str, str]:
        try:
            raw = await self._channel.unary_unary(request.method)(request.raw, timeout=_DEADLINE)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        if METHODS[request.method].output_type is v1.BatchResponse.DESCRIPTOR:
            for result in v1.BatchResponse.FromString(raw).results:
                if result.code in _FAULT_NUMBERS:
                    return "INTERNAL", f"of an item: {result.message}"
        return "OK", ""

    async def _stream(self, request: FuzzRequest) -> tuple[str, str]:
        call = self._channel.unary_stream(request.method)(request.raw, timeout=_DEADLINE)
        try:
            for _ in range(2):
                raw = await call.read()
                if raw is grpc.aio.EOF:
                    break
                if METHODS[request.method].output_type is v1.SubmitPodsResponse.DESCRIPTOR:
                    for result in v1.SubmitPodsResponse.FromString(raw).results:
                        if result.code in _FAULT_NUMBERS:
                            return "INTERNAL", f"of an item: {result.message}"
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        finally:
            call.cancel()
        return "OK", ""

    def _finding(self, what: str, request: FuzzRequest | HttpRequest | None = None) -> None:
        self.findings.append(f"{what}\n{request}" if request is not None else what)

    # ------------------------------------------------------------------ what is left in the end

    async def check(self) -> None:
        """Everyone still lives, has read everything, and everything can be shown and deleted."""
        listed = await self._list()
        revision = max((int(item.metadata.resource_version) for item in listed), default=0)
        async with asyncio.timeout(_DEADLINE):
            await self._informer.wait_for_revision(revision)
            await self._everything.wait_for_revision(revision)
        await asyncio.sleep(0.05)
        await self.pretenders.close()
        await self._check_connections()
        self._check_readers()
        await self.stop_readers()
        listed = await self._list()
        self._show(listed)
        self._apply(listed)
        await self._delete(listed)

    async def _check_connections(self) -> None:
        """Of the connections whose clients have gone, none is left."""
        await self._http.close()
        assert self._server.kube is not None
        listener = self._server.kube.connections
        with contextlib.suppress(AssertionError):
            await eventually("all are gone", lambda: listener.open, 0)
        if listener.open or listener.silent or listener.idle:
            self._finding(f"{listener.open} connections stay")

    def _check_readers(self) -> None:
        if self._readers is not None and self._readers.done():
            self._finding(f"the leader has ended: {self._readers.exception()!r}")
        for informer in (self._informer, self._everything):
            if informer.undecodable:
                self._finding(f"{informer.undecodable} objects cannot be decoded")
        if len(self.runner.state.set_aside):
            self._finding("objects are set aside")

    async def stop_readers(self) -> None:
        """Stop the leader and the agent, so that the objects stay as they are."""
        waiting = asyncio.create_task(self._agent.wait())
        await asyncio.sleep(0)
        if waiting.done() and waiting.exception() is not None:
            self._finding(f"the agent has ended: {waiting.exception()!r}")
        waiting.cancel()
        await self._agent.stop()
        self.runner.end_term()
        self._tasks.end()
        if self._readers is not None:
            await asyncio.gather(self._readers, return_exceptions=True)
            self._readers = None

    async def _list(self) -> list[AnyObject]:
        return [item for kind in KINDS for item in (await self._client.list(kind)).items]

    def _show(self, listed: list[AnyObject]) -> None:
        now = time.time()
        for item in listed:
            kind = KINDS[item.DESCRIPTOR.name]
            try:
                manifest = to_manifest(item)
                json.dumps(manifest, allow_nan=False)
                yaml.safe_dump(manifest, sort_keys=False)
                text = "\n".join(TablePrinter(kind, namespaces=True, wide=True).lines([item], now))
                text += description(item, [], [], now)
                text.encode()
            except Exception as error:
                self._finding(f"cannot be shown: {error!r} {str(item)[:2000]}")

    def _apply(self, listed: list[AnyObject]) -> None:
        """A replica that starts now takes everything over."""
        state = build_state(default_config(), factories(), seed=1)
        for item in listed:
            kind = item.DESCRIPTOR.name
            if kind not in WATCHED_KINDS:
                continue
            try:
                state.apply(Event(EventType.ADDED, kind, object_key(item), None, item), 0.0)
            except Exception as error:
                self._finding(f"cannot be applied: {error!r} {str(item)[:2000]}")
        if len(state.set_aside):
            self._finding("a new replica sets objects aside")

    async def _delete(self, listed: list[AnyObject]) -> None:
        for item in listed:
            kind, metadata = item.DESCRIPTOR.name, item.metadata
            try:
                if metadata.finalizers:
                    nothing = {"metadata": {"finalizers": None}}
                    await self._client.patch(kind, metadata.name, nothing, metadata.namespace)
                await self._client.delete(
                    kind, metadata.name, metadata.namespace, grace_period_seconds=0
                )
            except NotFound:
                continue
            except Exception as error:
                if kind not in _BUILT_IN and not isinstance(error, Conflict):
                    self._finding(f"cannot be deleted: {error!r} {str(item)[:2000]}")
        for left in await self._list():
            if left.DESCRIPTOR.name not in (*_BUILT_IN, "Event"):
                self._finding(f"is still there: {str(left)[:2000]}")

    async def close(self) -> None:
        """Stop everything that ``start`` has started."""
        await self.pretenders.close()
        await self.stop_readers()
        await asyncio.to_thread(self._decisions.close)
        await self._channel.close()
        await self._http.close()


def _is_meant(text: str) -> bool:
    """Return whether a status of 500 or more is no fault: of a client, or of what is absent."""
    try:
        answer = json.loads(text)
        reason, message = answer.get("reason"), str(answer.get("message"))
    except (ValueError, AttributeError):
        return False
    absent = message.startswith("the kubelet of ") and " cannot be " in message
    return reason is None or absent or message.startswith("no endpoints available for service ")


def _ignore(batch: Batch) -> None:
    """Take no note of a batch: the informer's stores are what is wanted."""


@asynccontextmanager
async def fuzz_world() -> AsyncIterator[FuzzWorld]:
    """A world with seeds in it; in the end it is checked and taken down."""
    loop = asyncio.get_running_loop()
    store = MemoryStore()
    with patch.object(replicas, "ANSWER_SECONDS", _ANSWER_SECONDS), capture_logs() as lines:
        server = await start_api_server(
            ServerSettings(bookmark_seconds=0.05, kube_listen="127.0.0.1:0"), store
        )
        client = ApiClient(server.address)
        term = (await store.txn([], [Put(term_key(LOCK), b"me")])).revision
        world = FuzzWorld(server, client, term)
        loop.set_exception_handler(
            lambda _, context: world.findings.append(f"of the event loop: {context}")
        )
        try:
            await world.start()
            yield world
            await world.check()
        finally:
            await world.close()
            await client.close()
            await server.stop(0)
            await store.close()
            # gRPC keeps every event loop, and with its handler the whole world would stay.
            loop.set_exception_handler(None)
    world.findings += [str(line) for line in lines if _is_fault(line)]


def _is_fault(line: Any) -> bool:
    return bool(line.get("exc_info")) or line.get("log_level") in ("error", "critical")
