"""What nodes use, of the readings of their kubelets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from podsched.api.objects import Node
from podsched.serve.server.kubelets.client import KubeletClient, KubeletError
from podsched.serve.server.kubelets.usage import NODE, KubeletUsage, readings_of, usage_between

WEB = ("default", "web", "main")


def said(second: int, *, cpu: float = 1.0, node: bool = True) -> str:
    """What a kubelet says at a second at which all have used ``cpu`` seconds."""
    labels = '{container="main",namespace="default",pod="web"}'
    lines = [
        "# HELP node_cpu_usage_seconds_total [STABLE] Cumulative cpu time",
        f"container_cpu_usage_seconds_total{labels} {cpu} {second * 1000}",
        f"container_memory_working_set_bytes{labels} 2.097152e+06 {second * 1000}",
        f"container_start_time_seconds{labels} 1e+02",
        f"node_cpu_usage_seconds_total {cpu} {second * 1000}",
        f"node_memory_working_set_bytes 1e9 {second * 1000}",
        'pod_swap_usage_bytes{namespace="default",pod="web"} 0',
    ]
    return "\n".join(lines if node else lines[:4])


async def test_cpu_is_what_was_used_between_two_readings() -> None:
    before, after = await readings_of(said(110, cpu=1.0)), await readings_of(said(120, cpu=6.0))
    usage = usage_between(before, after)
    assert usage[NODE] == (0.5, 10**9, 120.0, 10.0)
    assert usage[WEB] == (0.5, 2 << 20, 120.0, 10.0)


async def test_a_container_that_was_not_read_before_is_measured_from_its_start() -> None:
    usage = usage_between({}, await readings_of(said(120, cpu=5.0)))
    assert NODE not in usage
    assert usage[WEB] == (0.25, 2 << 20, 120.0, 20.0)


def mixed(node_second: int, container_second: int) -> str:
    """A kubelet's answer in which the container was read at another second than the node."""
    container = said(container_second, cpu=container_second / 4, node=False).splitlines()
    return "\n".join([*container, *said(node_second, cpu=node_second / 4).splitlines()[4:6]])


async def test_a_container_that_has_not_been_read_again_keeps_its_usage() -> None:
    first, second, third = [
        await readings_of(mixed(*at)) for at in ((110, 110), (120, 120), (130, 120))
    ]
    earlier = usage_between(first, second)
    usage = usage_between(second, third, earlier)
    assert usage[NODE].at == 130.0
    assert usage[WEB] == earlier[WEB]


async def test_a_container_that_has_not_been_read_twice_is_measured_from_its_start() -> None:
    first, second = await readings_of(mixed(110, 110)), await readings_of(mixed(120, 110))
    assert usage_between(first, second)[WEB] == (2.75, 2 << 20, 110.0, 10.0)


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "much"])
async def test_an_amount_that_cannot_be_is_left_out(value: str) -> None:
    text = said(120).replace(" 1e9", f" {value}")
    usage = usage_between(await readings_of(said(110)), await readings_of(text))
    assert [*usage] == [WEB]


class Kubelets:
    """Kubelets that take a reading every ten seconds of a clock."""

    def __init__(self) -> None:
        self.now, self.asked, self.slept = 1000.0, 0, 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds

    def usage(self) -> KubeletUsage:
        client = cast(KubeletClient, self)
        return KubeletUsage(client, lambda: self.now, self.sleep)

    async def endpoint(self, node: Node) -> Any:
        if node.metadata.name == "silent":
            raise KubeletError("no answer")
        return node.metadata.name

    async def request(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        second = int(self.now) // 10 * 10
        return Answer(said(second, cpu=second / 4))


class Answer:
    status = 200

    def __init__(self, text: str) -> None:
        self._text = text

    @property
    def content(self) -> Answer:
        return self

    async def iter_any(self) -> Any:
        yield self._text.encode()

    def close(self) -> None:
        pass


def node(name: str, uid: str = "") -> Node:
    return Node(metadata={"name": name, "uid": uid or name})


async def test_the_first_who_asks_waits_for_a_second_reading() -> None:
    kubelets = Kubelets()
    usage = (await kubelets.usage().of([node("a")]))["a"]
    assert usage[NODE].cpu == usage[WEB].cpu == 0.25
    assert kubelets.slept == 10.0


async def test_who_asks_again_soon_gets_the_same_and_later_a_newer_reading_at_once() -> None:
    kubelets = Kubelets()
    usage = kubelets.usage()
    first, asked = await usage.of([node("a")]), kubelets.asked
    assert await usage.of([node("a")]) == first
    assert kubelets.asked == asked
    kubelets.now += 60
    second = await usage.of([node("a")])
    assert second["a"][NODE].window == 60.0
    assert (kubelets.asked, kubelets.slept) == (asked + 1, 10.0)


async def test_another_machine_of_the_same_name_has_readings_of_its_own() -> None:
    kubelets = Kubelets()
    usage = kubelets.usage()
    await usage.of([node("a", "first")])
    kubelets.now += 60
    asked = kubelets.asked
    second = await usage.of([node("a", "second")])
    assert second["a"][NODE].window == 10.0
    assert kubelets.asked > asked + 1


async def test_after_two_minutes_the_reading_is_too_old_to_begin_with() -> None:
    kubelets = Kubelets()
    usage = kubelets.usage()
    await usage.of([node("a")])
    kubelets.now += 130
    assert (await usage.of([node("a")]))["a"][NODE].window == 10.0


async def test_a_kubelet_that_does_not_answer_does_not_hide_the_others() -> None:
    found = await Kubelets().usage().of([node("silent"), node("a")])
    assert found["silent"] == {}
    assert NODE in found["a"]


class Silent(Kubelets):
    """A kubelet that does not answer."""

    async def endpoint(self, node: Node) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        raise KubeletError("no answer")


async def test_those_who_wait_for_a_kubelet_that_does_not_answer_do_not_ask_one_by_one() -> None:
    """Each would wait as long as the first, after all before it."""
    silent = Silent()
    usage = silent.usage()
    found = await asyncio.gather(*(usage.of([node("a")]) for _ in range(5)))
    assert (found, silent.asked) == ([{"a": {}}] * 5, 1)
    silent.now += 1
    await usage.of([node("a")])
    assert silent.asked == 2


class Slow(Kubelets):
    """A kubelet that takes long to say the same again."""

    async def request(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        self.now += 9
        return Answer(said(1000))


async def test_a_kubelet_that_is_slow_is_not_asked_on_and_on() -> None:
    slow = Slow()
    await slow.usage().of([node("a")])
    assert slow.now - 1000 < 40
