"""Large bodies are worked on in a thread, so that other callers are not held up."""

from __future__ import annotations

import asyncio
import functools
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from podsched.serve.server.access.identity import caller, set_caller
from podsched.serve.server.rest import checks, large_bodies, subresources, writing
from podsched.serve.server.rest.large_bodies import apart
from support.kube_client import KubeClient

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}


LARGE = config_map(**{f"key-{n}": "value" for n in range(3000)})


async def test_others_run_while_a_large_body_is_worked_on() -> None:
    reached = threading.Event()
    work = asyncio.create_task(apart(1 << 20, reached.wait, 10))
    await asyncio.sleep(0)
    reached.set()
    assert await work


async def test_one_large_body_is_worked_on_at_a_time() -> None:
    """Each thread delays the event loop."""
    running: list[int] = []

    def work() -> int:
        running.append(1)
        threading.Event().wait(0.01)
        return len(running) - (running.pop() - 1)

    assert set(await asyncio.gather(*(apart(1 << 20, work) for _ in range(5)))) == {1}


def working(user: str, work: Callable[[], None]) -> asyncio.Task[None]:
    """A task of a user that works on a large body."""

    async def run() -> None:
        set_caller(replace(caller(), user=user))
        await apart(1 << 20, work)

    return asyncio.create_task(run())


async def test_a_large_body_does_not_wait_for_all_those_of_another_user() -> None:
    done: list[str] = []
    flood = [working("flooding", lambda: done.append("flood")) for _ in range(20)]
    other = working("ordinary", lambda: done.append("other"))
    await asyncio.gather(*flood, other)
    assert "other" in done[:3]


async def test_a_large_body_that_is_given_up_does_not_stop_others() -> None:
    done: list[int] = []
    asked = [working("user", functools.partial(done.append, n)) for n in range(4)]
    await asyncio.sleep(0)
    asked[1].cancel()
    asked[0].cancel()
    await asyncio.sleep(0)
    asked[2].cancel()
    await asked[3]
    assert 3 in done


async def test_the_error_of_a_large_body_is_the_callers() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await apart(1 << 20, int, "x")


def noting(threads: list[int], step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that notes the thread that it is called in."""

    def noted(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.get_ident())
        return step(*args, **kwargs)

    return noted


@pytest.mark.parametrize(
    ("method", "body", "media"),
    [
        ("POST", LARGE, "application/json"),
        ("PUT", LARGE, "application/json"),
        ("PATCH", {"data": LARGE["data"]}, MERGE),
        (
            "PATCH",
            [{"op": "add", "path": f"/data/k{n}", "value": "v"} for n in range(1000)],
            JSON_PATCH,
        ),
        ("PATCH", LARGE, APPLY),
    ],
)
async def test_no_step_of_a_large_write_is_done_in_the_event_loops_thread(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch, method: str, body: Any, media: str
) -> None:
    if method != "POST":
        assert (await kube.request("POST", MAPS, config_map(a="b"))).status == 201
    threads: list[int] = []
    for module, names in (
        (large_bodies, ("parsed",)),
        (writing, ("read_object", "patched_content", "read_patched")),
        (writing, ("applied_config", "normalized", "applied", "managed")),
        (checks, ("read_object",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, noting(threads, getattr(module, name)))
    path = MAPS if method == "POST" else f"{MAPS}/m"
    answer = await kube.request(
        method,
        f"{path}?fieldManager=me" if media == APPLY else path,
        json.dumps(body).encode(),
        headers={"Content-Type": media},
    )
    assert answer.status < 300, answer
    assert len(threads) >= 2
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("word", ["copy", "c\\u006fpy"])
async def test_a_patch_that_copies_is_not_applied_in_the_event_loops_thread(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Ten copies of copies make a thousand."""
    assert (await kube.request("POST", MAPS, config_map(a="b"))).status == 201
    threads: list[int] = []
    monkeypatch.setattr(writing, "read_patched", noting(threads, writing.read_patched))
    patch = f'[{{"op": "{word}", "from": "/data/a", "path": "/data/c"}}]'
    answer = await kube.request(
        "PATCH", f"{MAPS}/m", patch.encode(), headers={"Content-Type": JSON_PATCH}
    )
    assert answer.json["data"] == {"a": "b", "c": "b"}
    assert threads and threading.get_ident() not in threads


async def test_a_patch_of_a_scale_is_not_applied_in_the_event_loops_thread_either(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    labels = {"app": "web"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    made = await kube.request("POST", sets, {"metadata": {"name": "web"}, "spec": spec})
    assert made.status == 201, made.json
    threads: list[int] = []
    monkeypatch.setattr(subresources, "managed", noting(threads, subresources.managed))
    patch = [{"op": "copy", "from": "/spec/replicas", "path": "/spec/other"}]
    headers = {"Content-Type": JSON_PATCH}
    answer = await kube.request("PATCH", f"{sets}/web/scale", patch, headers)
    assert answer.status == 200, answer.json
    assert threads and threading.get_ident() not in threads


PADDING = [{"a": "b"}] * 5000
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", f"{MAPS}/m", {"kind": "DeleteOptions", "apiVersion": "v1"}),
        ("POST", f"{PODS}/web/binding", {"target": {"name": "n"}, "metadata": {"name": "web"}}),
        ("POST", f"{PODS}/web/eviction", {"apiVersion": "policy/v1", "metadata": {"name": "web"}}),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {}),
    ],
)
async def test_a_large_body_of_a_small_kind_is_not_parsed_in_the_event_loops_thread(
    kube: KubeClient, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: dict[str, Any]
) -> None:
    threads: list[int] = []
    monkeypatch.setattr(large_bodies, "parsed", noting(threads, large_bodies.parsed))
    await kube.request(method, path, json.dumps({**body, "padding": PADDING}).encode())
    assert len(threads) == 1
    assert threading.get_ident() not in threads
