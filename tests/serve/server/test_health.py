"""Health checks: what they say, and that no stranger holds them up."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from podsched.api.reasons import StatusReason
from podsched.serve.server import health as module
from podsched.serve.server.errors import ApiError
from podsched.serve.server.health import Health


def asked(service: str) -> HealthCheckRequest:
    return HealthCheckRequest(service=service)


def shown(response: bytes) -> str:
    status = HealthCheckResponse.FromString(response).status
    name: str = HealthCheckResponse.ServingStatus.Name(status)
    return name


async def test_a_service_cannot_be_used_until_it_is_said_that_it_can() -> None:
    health = Health(["", "a"])
    assert shown(await health.check(asked("a"))) == "NOT_SERVING"
    health.set(True, ["a", "b"])
    assert [shown(await health.check(asked(name))) for name in ("", "a", "b")] == [
        "NOT_SERVING",
        "SERVING",
        "SERVING",
    ]
    with pytest.raises(ApiError) as refused:
        await health.check(asked("c"))
    assert refused.value.reason == StatusReason.NOT_FOUND


async def test_a_watch_tells_each_change_of_its_service_alone() -> None:
    health = Health(["a", "b"])
    watch = health.watch(asked("a"))
    assert shown(await anext(watch)) == "NOT_SERVING"
    following = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    health.set(True, ["b"])
    for _ in range(5):
        await asyncio.sleep(0)
    assert not following.done()
    health.set(True, ["a"])
    assert shown(await following) == "SERVING"
    await watch.aclose()


async def test_a_watch_of_a_service_that_is_not_known_yet_waits_for_it() -> None:
    health = Health([])
    watch = health.watch(asked("a"))
    assert shown(await anext(watch)) == "SERVICE_UNKNOWN"
    health.set(True, ["a"])
    assert shown(await anext(watch)) == "SERVING"
    await watch.aclose()


async def test_a_watch_that_nobody_reads_keeps_no_status_from_changing() -> None:
    """The first status has been sent to it, and is not taken."""
    health = Health([""])
    unread, read = health.watch(asked("")), health.watch(asked(""))
    await anext(unread)
    await anext(read)
    health.set(True, [""])
    assert shown(await health.check(asked(""))) == "SERVING"
    assert shown(await anext(read)) == "SERVING"
    await unread.aclose()
    await read.aclose()


async def test_a_server_that_closes_ends_its_watches() -> None:
    health = Health([""])
    health.set(True, [""])
    watch = health.watch(asked(""))
    assert shown(await anext(watch)) == "SERVING"
    health.close()
    health.set(True, [""])
    assert shown(await anext(watch)) == "NOT_SERVING"
    with pytest.raises(ApiError) as ended:
        await anext(watch)
    assert ended.value.reason == StatusReason.SHUTTING_DOWN


async def test_watches_beyond_the_bound_are_refused_and_make_room_when_they_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_WATCHES", 1)
    health = Health([""])
    first = health.watch(asked(""))
    await anext(first)
    waiting = asyncio.ensure_future(anext(first))
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="overloaded: 1 watches of health"):
        await anext(health.watch(asked("")))
    waiting.cancel()
    await asyncio.wait([waiting])
    last = health.watch(asked(""))
    assert shown(await anext(last)) == "NOT_SERVING"
    await last.aclose()


@pytest.mark.parametrize("method", ["Check", "Watch"])
async def test_a_name_of_megabytes_is_refused(method: str) -> None:
    class Context:
        def __init__(self) -> None:
            self.code: grpc.StatusCode | None = None

        async def read(self) -> bytes:
            raw: bytes = asked("x" * (1 << 20)).SerializeToString()
            return raw

        def invocation_metadata(self) -> tuple[()]:
            return ()

        def set_trailing_metadata(self, _: object) -> None:
            pass

        async def abort(self, code: grpc.StatusCode, _: str) -> None:
            self.code = code
            raise RuntimeError

    class Details:
        invocation_metadata = ()

        def __init__(self, method: str) -> None:
            self.method = f"/grpc.health.v1.Health/{method}"

    handler, context = Health([""]).handlers().service(Details(method)), Context()
    with pytest.raises(RuntimeError):
        await (handler.stream_unary or handler.stream_stream)(None, context)
    assert context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
