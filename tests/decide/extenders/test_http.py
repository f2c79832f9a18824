"""Extenders behind real sockets on the loopback address, and with real processes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from podsched.api.objects import Pod
from podsched.config.errors import ConfigError
from podsched.config.extenders import Extender
from podsched.config.load import load_config
from podsched.decide.extenders import http
from podsched.decide.extenders.calls import make_extenders
from podsched.decide.extenders.http import HttpTransport
from podsched.decide.extenders.wire import ExtenderError
from podsched.v1 import api_pb2
from support.certificates import make_certificates
from support.engine_world import pod
from support.eventually import PATIENCE, eventually
from support.extender_world import ScriptedExtender, names_in, passing, serving
from support.real_cluster import real_cluster
from support.term_world import TermWorld

pytestmark = pytest.mark.integration

ALL = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "bindVerb": "bind"}


#: Answers are waited for as long as a busy machine takes; by default 5 s.
PATIENT = {"httpTimeout": f"{PATIENCE:.0f}s"}


def configured(url: str, **config: Any) -> Extender:
    return load_config({"extenders": [{"urlPrefix": url, **PATIENT, **config}]}).extenders[0]


async def send(config: Extender, verb: str = "filter") -> bytes:
    transport = HttpTransport(config)
    try:
        return await transport.send(verb, b'{"Nodes":null,"NodeNames":["n1"]}')
    finally:
        await transport.close()


async def test_a_call_posts_json_to_the_verb_below_the_prefix() -> None:
    extender = ScriptedExtender()
    async with serving(extender) as url:
        assert await send(configured(url)) == b'{"NodeNames": ["n1"], "FailedNodes": {}}'
    assert extender.verbs() == ["filter"]


async def test_an_answer_other_than_200_is_an_error() -> None:
    extender = ScriptedExtender()
    extender.answers["filter"] = lambda args: 1 / 0
    async with serving(extender) as url:
        with pytest.raises(ExtenderError) as raised:
            await send(configured(url))
        assert str(raised.value) == f"failed filter with extender at URL {url}filter, code 500"


async def test_an_extender_that_does_not_answer_in_time_is_given_up() -> None:
    extender = ScriptedExtender()
    extender.delay = 30
    async with serving(extender) as url:
        began = asyncio.get_running_loop().time()
        with pytest.raises(ExtenderError, match="no answer within 200ms"):
            await send(configured(url, httpTimeout="200ms"))
        assert asyncio.get_running_loop().time() - began < 25


async def test_an_extender_that_cannot_be_reached_is_an_error_that_shows_no_password() -> None:
    with pytest.raises(ExtenderError, match="Post") as raised:
        await send(configured("http://me:secret@127.0.0.1:1"))
    assert "secret" not in str(raised.value)


async def _answering(answer: web.Response) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.Response:
        return answer

    server = TestServer(web.Application())
    server.app.router.add_post("/{verb}", handle)
    await server.start_server()
    try:
        yield str(server.make_url("/"))
    finally:
        await server.close()


async def test_a_redirect_is_not_followed() -> None:
    asked = ScriptedExtender()
    async with serving(asked) as other:
        moved = web.Response(status=307, headers={"Location": f"{other}filter"})
        async for url in _answering(moved):
            with pytest.raises(ExtenderError, match="code 307"):
                await send(configured(url))
    assert asked.verbs() == []


async def test_a_compressed_answer_is_not_unpacked() -> None:
    bomb = gzip.compress(b"[" + b" " * 30_000_000 + b"]", compresslevel=1)
    packed = web.Response(body=bomb, headers={"Content-Encoding": "gzip"})
    async for url in _answering(packed):
        assert len(await send(configured(url))) == len(bomb)


async def test_an_answer_without_end_is_given_up() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * (1 << 16)

    async for url in _answering(web.Response(body=endless())):
        with pytest.raises(ExtenderError, match=r"the answer is larger than 4\.0 MiB"):
            await send(configured(url))


def test_an_answer_may_be_the_larger_the_more_was_sent() -> None:
    assert http.most_of_answer(1 << 20) == 12 << 20
    assert http.most_of_answer(1 << 30) == http.MAX_ANSWER_BYTES


# ------------------------------------------------------------------ TLS


def encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


async def test_https_checks_the_server_by_the_ca_that_is_given(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for directory in (own, other):
        directory.mkdir()
    certificates, strangers = make_certificates(own), make_certificates(other)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.cert, certificates.key)
    by_file: dict[str, Any] = {"caFile": str(certificates.ca)}
    async with serving(ScriptedExtender(), tls) as url:
        for good in (
            {"enableHTTPS": True, "tlsConfig": by_file},
            {"enableHTTPS": True, "tlsConfig": {"caData": encoded(certificates.ca)}},
            {"enableHTTPS": True, "tlsConfig": {**by_file, "serverName": "localhost"}},
            {"tlsConfig": {"insecure": True}},
            {"enableHTTPS": True},
        ):
            assert await send(configured(url, **good))
        for bad in (
            {"enableHTTPS": True, "tlsConfig": {"caFile": str(strangers.ca)}},
            {"enableHTTPS": True, "tlsConfig": {**by_file, "serverName": "elsewhere"}},
            {},
        ):
            with pytest.raises(ExtenderError):
                await send(configured(url, **bad))


@pytest.mark.parametrize("as_data", [False, True])
async def test_an_extender_may_demand_a_certificate(tmp_path: Path, as_data: bool) -> None:
    certificates = make_certificates(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(certificates.cert, certificates.key)
    ca = {"caFile": str(certificates.ca)}
    own: Mapping[str, Any] = {
        "certFile": str(certificates.cert),
        "keyFile": str(certificates.key),
    }
    if as_data:
        own = {"certData": encoded(certificates.cert), "keyData": encoded(certificates.key)}
    async with serving(ScriptedExtender(), tls) as url:
        assert await send(configured(url, enableHTTPS=True, tlsConfig={**ca, **own}))
        with pytest.raises(ExtenderError):
            await send(configured(url, enableHTTPS=True, tlsConfig=ca))


@pytest.mark.parametrize(
    "tls",
    [
        {"caFile": "/nowhere/ca.crt"},
        {"caData": encoded(Path(__file__))},
        {"certFile": __file__},
        {"certFile": __file__, "keyFile": __file__},
        {"insecure": True, "caFile": "/nowhere/ca.crt"},
    ],
)
def test_tls_files_that_cannot_be_used_are_a_mistake_of_the_configuration(
    tls: dict[str, str],
) -> None:
    extenders = load_config({"extenders": [{}, {"tlsConfig": tls}]}).extenders
    with pytest.raises(ConfigError, match=r"extenders\[1\].tlsConfig(\.caFile|\.caData)?: "):
        make_extenders(extenders)


def test_files_that_are_missing_are_named_of_all_extenders() -> None:
    missing = {"caFile": "/nowhere/ca.crt", "certFile": "/nowhere/a.crt", "keyFile": __file__}
    extenders = load_config({"extenders": [{"tlsConfig": missing}, {"tlsConfig": missing}]})
    with pytest.raises(ConfigError) as caught:
        make_extenders(extenders.extenders)
    assert [(error.path, error.value) for error in caught.value.errors] == [
        (f"extenders[{at}].tlsConfig.{field}", file)
        for at in (0, 1)
        for field, file in (("caFile", "/nowhere/ca.crt"), ("certFile", "/nowhere/a.crt"))
    ]


# ------------------------------------------------------------------ pods


async def test_pods_pass_extenders_that_are_slow_broken_or_choosy() -> None:
    choosy, slow, broken = ScriptedExtender(), ScriptedExtender(), ScriptedExtender()
    choosy.answers["filter"] = lambda args: passing(args, lambda name: name != "n1")
    choosy.answers["prioritize"] = lambda args: [{"Host": "n3", "Score": 10}]
    slow.delay = 30
    broken.answers["filter"] = lambda args: 1 / 0
    async with serving(choosy) as a, serving(slow) as b, serving(broken) as c:
        ignorable = {"filterVerb": "filter", "ignorable": True}
        filtering = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
        world = TermWorld(
            extenders=[
                {"urlPrefix": b, **ignorable, "httpTimeout": "100ms"},
                {"urlPrefix": c, **PATIENT, **ignorable},
                {"urlPrefix": a, **PATIENT, **filtering},
            ]
        )
        for name in ("n1", "n2", "n3"):
            world.node(name)
        async with world.running():
            world.pod("a")
            await eventually("a is bound", lambda: world.nodes_of("a") == ["n3"])
            # On a busy machine the request to the slow one may not arrive within its limit.
            assert broken.verbs() == ["filter"]
            world.check()


async def test_a_scheduler_with_an_extender_schedules_on_a_real_cluster(tmp_path: Path) -> None:
    extender = ScriptedExtender()
    extender.answers["filter"] = lambda args: passing(args, lambda name: name.endswith(("1", "2")))
    extender.answers["prioritize"] = lambda args: [
        {"Host": name, "Score": 10} for name in names_in(args) if name.endswith("2")
    ]
    managed = [{"name": "example.com/licence", "ignoredByScheduler": True}]
    config = tmp_path / "scheduler.yaml"
    limits = {"limits": {"example.com/licence": "1"}, "requests": {"example.com/licence": "1"}}
    container = {"name": "c", "image": "x", "resources": limits}
    async with serving(extender) as url:
        header = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        own = {"managedResources": managed, "nodeCacheCapable": True, **PATIENT, **ALL}
        config.write_text(yaml.safe_dump({**header, "extenders": [{"urlPrefix": url, **own}]}))
        async with real_cluster(
            tmp_path / "data", nodes=4, replicas=1, scheduler_config=config
        ) as cluster:
            client = cluster.client
            send_on = extender.send

            async def bind_or(verb: str, body: bytes) -> bytes:
                answer = await send_on(verb, body)
                if verb == "bind":
                    args = extender.calls[-1][1]
                    await client.bind(
                        api_pb2.Binding(
                            namespace=args["PodNamespace"],
                            name=args["PodName"],
                            uid=args["PodUID"],
                            node_name=args["Node"],
                        )
                    )
                return answer

            extender.send = bind_or  # type: ignore[method-assign]
            plain = [pod(f"plain-{at}") for at in range(5)]
            licensed = [pod(f"licensed-{at}", {"containers": [container]}) for at in range(5)]
            for item in (*plain, *licensed):
                item.metadata.uid = ""
            await client.create_pods([*plain, *licensed])

            async def all_bound() -> bool:
                # Each is bound by a call of its own: the last one may come first.
                every = [await node_of(item.metadata.name) for item in (*plain, *licensed)]
                return all(every)

            async def node_of(name: str) -> str:
                found = await client.get("Pod", name, "default")
                assert isinstance(found, Pod)
                return found.spec.node_name

            await eventually("all pods are bound", all_bound)
            spoken_of = {
                args["Pod"]["metadata"]["name"] for verb, args in extender.calls if "Pod" in args
            }
            assert spoken_of == {item.metadata.name for item in licensed}
            nodes = {await node_of(item.metadata.name) for item in licensed}
            assert len(nodes) == 1
            assert nodes.pop().endswith("2")
            bound = [args["PodName"] for verb, args in extender.calls if verb == "bind"]
            assert sorted(bound) == [item.metadata.name for item in licensed]
