"""kubectl logs, exec, cp, attach and the rest that an API server passes on to kubelets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.app.local_specs import write_kubeconfig
from podsched.lib.certificates import SERVER, certify, read_pair
from podsched.lib.certificates import Request as CertificateRequest
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.server.kubelets import client
from podsched.serve.server.kubelets.client import KubeletClient
from podsched.serve.server.kubelets.settings import KubeletSettings
from podsched.serve.server.rest import proxying
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from support.api_servers import start_api_server
from support.certificates import Certificates, make_certificates
from support.eventually import PATIENCE, eventually
from support.stand_in_kubelet import StandInKubelet, address_of_this_machine, stand_in_kubelet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not address_of_this_machine(), reason="needs an address beside loopback"),
]

_KUBECTL = Path(sys.executable).with_name("kubectl")


@dataclass
class Cluster:
    """An API server, the kubelet of its only real node, and kubectl."""

    server: ApiServer
    kubelet: StandInKubelet
    files: Certificates
    kubeconfig: Path

    async def create(self, manifest: dict[str, Any]) -> None:
        await self.server.core.creator.create(from_manifest(manifest).message)

    async def pod(self, name: str, *containers: str, node: str = "real") -> None:
        spec = {"nodeName": node, "containers": [{"name": c, "image": "i"} for c in containers]}
        metadata = {"name": name, "namespace": "default"}
        await self.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        await self.server.core.reflector.wait_until_fresh()

    async def start(self, *arguments: str, **more: Any) -> asyncio.subprocess.Process:
        """A running kubectl."""
        pipe = asyncio.subprocess.PIPE
        home = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.kubeconfig.parent)}
        return await asyncio.create_subprocess_exec(
            *(str(_KUBECTL), *arguments),
            env={**os.environ, **home, **more},
            stdin=pipe,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
        )

    async def kubectl(self, *arguments: str, code: int = 0, stdin: bytes = b"") -> str:
        """What kubectl prints, errors included; its exit code must be ``code``."""
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(PATIENCE):
                output, _ = await process.communicate(stdin)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == code, output.decode()
        return output.decode()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    address = address_of_this_machine()
    files = make_certificates(tmp_path, address)
    cert, key, ca = str(files.cert), str(files.key), str(files.ca)
    settings = ServerSettings(
        kube_listen="127.0.0.1:0",
        tls_cert=cert,
        tls_key=key,
        tls_client_ca=ca,
        kubelets=KubeletSettings(client_certificate=cert, client_key=key, certificate_authority=ca),
    )
    store = MemoryStore()
    server = await start_api_server(settings, store)
    try:
        async with stand_in_kubelet(files, address) as kubelet:
            kubeconfig = tmp_path / "kubeconfig"
            write_kubeconfig(kubeconfig, f"127.0.0.1:{server.kube_port}", TlsFiles(ca, cert, key))
            cluster = Cluster(server, kubelet, files, kubeconfig)
            await cluster.create(kubelet.node("real"))
            yield cluster
    finally:
        await server.stop(0.1)
        await store.close()


async def test_logs_are_shown_with_their_options(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    cluster.kubelet.log += ["one", "two", "three"]
    assert await cluster.kubectl("logs", "web") == "one\ntwo\nthree\n"
    options = ("--tail=2", "--since=10s", "--timestamps", "--previous", "--limit-bytes=99")
    assert await cluster.kubectl("logs", "web", *options) == "two\nthree\n"
    asked = cluster.kubelet.asked[-1]
    assert asked.startswith("GET /containerLogs/default/web/main?")
    for option in ("tailLines=2", "sinceSeconds=10", "timestamps=true", "previous=true",
                   "limitBytes=99"):  # fmt: skip
        assert option in asked
    assert cluster.kubelet.users[-1] == "localhost"
    assert "authorization" not in cluster.kubelet.headers[-1]


async def test_a_log_is_followed_until_kubectl_ends(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    following = await cluster.start("logs", "-f", "web")
    assert following.stdout is not None
    await eventually("the kubelet is asked", lambda: bool(cluster.kubelet.asked))
    for line in ("one", "two"):
        cluster.kubelet.say(line)
        async with asyncio.timeout(PATIENCE):
            assert await following.stdout.readline() == line.encode() + b"\n"
    following.terminate()
    await following.wait()
    await eventually("the kubelet is left", lambda: not cluster.kubelet.open_streams)


async def test_a_container_must_be_chosen_of_several(cluster: Cluster) -> None:
    await cluster.pod("two", "one", "waiting")
    path = "/api/v1/namespaces/default/pods/two/log"
    said = await cluster.kubectl("get", "--raw", path, code=1)
    assert "a container name must be specified for pod two, choose one of: [one waiting]" in said
    said = await cluster.kubectl("get", "--raw", f"{path}?container=other", code=1)
    assert "container other is not valid for pod two" in said
    said = await cluster.kubectl("logs", "two", "-c", "waiting", code=1)
    assert "is waiting to start: ContainerCreating" in said


async def test_a_command_is_run_with_its_input_output_and_exit_code(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    command = ("sh", "-c", "cat; echo to stderr >&2; exit 7")
    said = await cluster.kubectl("exec", "-i", "web", "--", *command, code=7, stdin=b"given\n")
    assert "given\n" in said
    assert "to stderr\n" in said
    assert cluster.kubelet.asked[-1].startswith("GET /exec/default/web/main?")
    assert "command=sh&command=-c" in cluster.kubelet.asked[-1]


async def test_large_output_arrives_whole(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    command = ("head", "-c", "20000000", "/dev/zero")
    assert await cluster.kubectl("exec", "web", "--", *command) == "\0" * 20_000_000


async def test_files_are_copied_in_both_directions(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.pod("web", "main")
    source, there, back = tmp_path / "source", tmp_path / "there", tmp_path / "back"
    source.write_bytes(os.urandom(300_000))
    await cluster.kubectl("cp", str(source), f"web:{there}")
    assert there.read_bytes() == source.read_bytes()
    await cluster.kubectl("cp", f"web:{there}", str(back))
    assert back.read_bytes() == source.read_bytes()


async def test_a_process_is_attached_to(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    said = await cluster.kubectl("attach", "-i", "web", stdin=b"hello\n")
    assert "hello\n" in said
    assert cluster.kubelet.asked[-1].startswith("GET /attach/default/web/main?")


async def test_a_kubelet_is_asked_through_the_proxy_of_its_node(cluster: Cluster) -> None:
    cluster.kubelet.metrics = "node_cpu_usage_seconds_total 1\n"
    path = "/api/v1/nodes/real/proxy"
    assert await cluster.kubectl("get", "--raw", f"{path}/metrics/resource?a=1&a=2") == (
        "node_cpu_usage_seconds_total 1\n"
    )
    assert cluster.kubelet.asked[-1] == "GET /metrics/resource?a=1&a=2"
    assert "authorization" not in cluster.kubelet.headers[-1]
    port = cluster.kubelet.port
    assert await cluster.kubectl("get", "--raw", f"/api/v1/nodes/real:{port}/proxy/healthz") == "ok"
    said = await cluster.kubectl("get", "--raw", "/api/v1/nodes/real:22/proxy/healthz", code=1)
    assert "port 22 of node real: only the kubelet's port" in said
    before = len(cluster.kubelet.asked)
    await cluster.kubectl("get", "--raw", f"{path}/redirect", code=1)
    assert len(cluster.kubelet.asked) == before + 1


async def test_a_hollow_node_says_that_it_runs_nothing(cluster: Cluster) -> None:
    metadata = {"name": "hollow", "labels": {"podsched.io/hollow": "true"}}
    await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    await cluster.pod("web", "main", node="hollow")
    for command in (("logs", "web"), ("exec", "web", "--", "ls"), ("attach", "web")):
        said = await cluster.kubectl(*command, code=1)
        assert "node hollow, which is a hollow node of sched agent: nothing runs on it" in said


async def test_a_node_that_names_the_api_server_as_its_kubelet_is_refused(cluster: Cluster) -> None:
    lying = cluster.kubelet.node("lying")
    lying["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = cluster.server.kube_port
    await cluster.create(lying)
    said = await cluster.kubectl("get", "--raw", "/api/v1/nodes/lying/proxy/healthz", code=1)
    assert "is the API server's own" in said


async def test_a_server_with_another_authority_is_no_kubelet(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    address = address_of_this_machine()
    async with stand_in_kubelet(make_certificates(tmp_path / "other", address), address) as other:
        await cluster.create(other.node("other"))
        await cluster.pod("web", "main", node="other")
        for command in (("logs", "web"), ("exec", "web", "--", "ls")):
            said = await cluster.kubectl(*command, code=1)
            assert "certificate verify failed" in said
        assert other.asked == []


async def test_streams_of_a_user_are_limited_and_count_until_they_end(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxying, "MAX_OF_USER", 1)
    await cluster.pod("web", "main")
    first = await cluster.start("exec", "-i", "web", "--", "cat")
    await eventually("the command runs", lambda: cluster.kubelet.open_streams == 1)
    path = "/api/v1/namespaces/default/pods/web/log"
    said = await cluster.kubectl("get", "--raw", path, "--request-timeout=2s", code=1)
    # Of the two timers that kubectl sets for the timeout, either may go off first.
    assert any(word in said for word in ("there may be at most", "deadline", "canceled"))
    first.kill()
    await first.wait()
    await eventually("the command has ended", lambda: cluster.kubelet.open_streams == 0)
    await cluster.kubectl("get", "--raw", path)


async def test_output_that_is_not_read_waits_at_the_kubelet(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    before = resident_bytes()
    endless = await cluster.start("exec", "web", "--", "cat", "/dev/zero")
    await eventually("the command runs", lambda: cluster.kubelet.open_streams == 1)
    await check_unread(cluster, endless, before)


async def check_unread(cluster: Cluster, endless: asyncio.subprocess.Process, before: int) -> None:
    """Check that kubectl's endless output is not kept; ``before``: the memory before it began."""
    await asyncio.sleep(2)  # nothing reads the pipe of kubectl
    assert await cluster.kubectl("get", "--raw", "/livez") == "ok"
    assert resident_bytes() - before < 64 << 20
    endless.kill()
    assert endless.stdout is not None
    await endless.stdout.read()
    await endless.wait()


def resident_bytes() -> int:
    """Bytes of memory of this process, which is API server and kubelet."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


# ------------------------------------------------------------------ kubelets that lie


Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def raw_kubelet(cluster: Cluster, name: str, handle: Handle) -> AsyncIterator[None]:
    """A node whose kubelet answers with bytes of a test; default/on-NAME is its pod."""
    files = cluster.files
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    listening = await asyncio.start_server(handle, address_of_this_machine(), 0, ssl=context)
    node = cluster.kubelet.node(name)
    port = listening.sockets[0].getsockname()[1]
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = port
    await cluster.create(node)
    await cluster.pod(f"on-{name}", "main", node=name)
    try:
        yield
    finally:
        listening.close()


_ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: https://192.0.2.9/\r\nContent-Length: 0\r\n\r\n"
_LONG = b"a" * (1 << 20)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nX-A: " + _LONG + b"\r\n\r\n", "cannot be reached: "),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200_000 + b"\r\n", "cannot be reached: "),
        (b"HTTP/1.1 200 " + _LONG + b"\r\n\r\n", "cannot be reached: "),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", "cannot be reached: "),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n", "answered 101"),
        (b"HTTP/1.1 999 A\r\nContent-Length: 0\r\n\r\n", "answered 999"),
        (_ELSEWHERE, "answered 302"),
        (b"", "cannot be reached: "),
    ],
)
async def test_an_answer_that_no_kubelet_gives_ends_only_its_own_call(
    cluster: Cluster, answer: bytes, says: str
) -> None:
    asked = 0

    async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    async with raw_kubelet(cluster, "lying", lie):
        said = await cluster.kubectl("logs", "on-lying", code=1)
        assert "the kubelet of node lying at" in said
        assert says in said
        assert len(said) < 3000
        path = "/api/v1/namespaces/default/pods/on-lying/log?follow=true"
        said = await cluster.kubectl("get", "--raw", path, code=1)
        assert "the kubelet of node lying at" in said
        assert asked <= 4  # an answer without a byte may be a connection that has just ended
        if b" 101 " not in answer:
            await cluster.kubectl("exec", "on-lying", "--", "ls", code=1)
        proxied = "/api/v1/nodes/lying/proxy/healthz"
        said = (await (await cluster.start("get", "--raw", proxied)).communicate())[0].decode()
        assert len(said) < 3000
        await cluster.pod("web", "main")
        assert await cluster.kubectl("logs", "web") == ""


async def test_a_kubelet_that_sends_its_answer_by_the_byte_is_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(KubeletClient.request, "__kwdefaults__", _patient_for(1.0))

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for byte in b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.05)
        writer.close()

    async with raw_kubelet(cluster, "slow", drip):
        for command in (("logs", "on-slow"), ("exec", "on-slow", "--", "ls")):
            assert "no answer within 1 s" in await cluster.kubectl(*command, code=1)


def _patient_for(seconds: float) -> dict[str, Any]:
    found = dict(KubeletClient.request.__kwdefaults__ or {})
    return found | {"seconds": seconds}


@pytest.mark.parametrize("what", ["log", "proxy"])
async def test_an_answer_that_never_ends_waits_for_its_reader(cluster: Cluster, what: str) -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError, EOFError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent += 65536
        writer.close()

    async with raw_kubelet(cluster, "endless", endless):
        pod, node = "namespaces/default/pods/on-endless/log", "nodes/endless/proxy/a"
        path = f"/api/v1/{pod if what == 'log' else node}"
        before = resident_bytes()
        unread = await cluster.start("get", "--raw", path)
        await eventually("it has begun", lambda: sent > 0 or unread.returncode is not None)
        if unread.returncode is not None:
            pytest.fail((await unread.communicate())[0].decode())

        async def waits() -> bool:
            """Nothing reads the pipe of kubectl."""
            held = sent
            await asyncio.sleep(1)
            assert sent < 64 << 20
            return sent == held

        await eventually("it waits for its reader", waits)
        assert resident_bytes() - before < 64 << 20
        await cluster.pod("web", "main")
        assert await cluster.kubectl("logs", "web") == ""
        unread.kill()
        assert unread.stdout is not None
        await unread.stdout.read()
        await unread.wait()


async def test_a_certificate_of_another_node_is_no_kubelets(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The same authority signs those of all kubelets."""
    asked = CertificateRequest("other", (), ["192.0.2.7"], (SERVER,))
    other = certify(read_pair(cluster.files.ca), asked, days=1)
    cert, key = tmp_path / "other.crt", tmp_path / "other.key"
    cert.write_bytes(other.certificate_pem)
    key.write_bytes(other.key_pem)
    address = address_of_this_machine()
    async with stand_in_kubelet(replace(cluster.files, cert=cert, key=key), address) as kubelet:
        await cluster.create(kubelet.node("other"))
        await cluster.pod("web", "main", node="other")
        assert "certificate verify failed" in await cluster.kubectl("logs", "web", code=1)
        assert kubelet.asked == []


@pytest.mark.parametrize("action", ["exec?command=sh&command=-i&stdin=true", "portforward"])
async def test_spdy_of_older_clients_passes_as_it_is(cluster: Cluster, action: str) -> None:
    """Both versions that a client offers arrive, and bytes in both directions."""
    heads: list[bytes] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\nSet-Cookie: a=b\r\n\r\nfirst"
        )
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    files, address = cluster.files, address_of_this_machine()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    listening = await asyncio.start_server(echo, address, 0, ssl=context)
    node = cluster.kubelet.node("old")
    port = listening.sockets[0].getsockname()[1]
    node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"] = port
    await cluster.create(node)
    await cluster.pod("web", "main", node="old")
    trust = ssl.create_default_context(cafile=str(files.ca))
    trust.load_cert_chain(files.cert, files.key)
    kube = await asyncio.open_connection("127.0.0.1", cluster.server.kube_port, ssl=trust)
    reader, writer = kube
    head = [
        f"POST /api/v1/namespaces/default/pods/web/{action} HTTP/1.1", "Host: a",
        "Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0",
        "Authorization: Bearer secret", "X-Stream-Protocol-Version: v5.channel.k8s.io",
        "X-Stream-Protocol-Version: v4.channel.k8s.io", "", "",
    ]  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        writer.write("\r\n".join(head).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert b"v4.channel.k8s.io" in answer
        assert b"Cookie" not in answer
        assert await reader.readexactly(5) == b"first"
        sent = os.urandom(1_000_000)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()
        await writer.wait_closed()
    listening.close()
    (seen,) = heads
    assert seen.count(b"X-Stream-Protocol-Version: ") == 2
    assert b"secret" not in seen
    assert seen.startswith((b"POST /exec/default/web/main?", b"POST /portForward/default/web?"))


async def test_rights_are_those_of_the_subresource(cluster: Cluster, tmp_path: Path) -> None:
    """By GET, as WebSockets ask, running a command needs the right to create, too."""
    await cluster.pod("web", "main")
    authority = read_pair(cluster.files.ca)
    reader = certify(authority, CertificateRequest("reader"), days=1)
    cert, key = tmp_path / "reader.crt", tmp_path / "reader.key"
    cert.write_bytes(reader.certificate_pem)
    key.write_bytes(reader.key_pem)
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods/exec", "pods/log"]}
    role = {"kind": "ClusterRole", "metadata": {"name": "gets"}, "rules": [rule]}
    reference = {"kind": "ClusterRole", "name": "gets", "apiGroup": "rbac.authorization.k8s.io"}
    subjects = [{"kind": "User", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}]
    bound = {"kind": "ClusterRoleBinding", "metadata": {"name": "gets"}, "roleRef": reference}
    await cluster.create({**head, **role})
    await cluster.create({**head, **bound, "subjects": subjects})
    await cluster.server.core.reflector.wait_until_fresh()
    address = f"127.0.0.1:{cluster.server.kube_port}"
    files = TlsFiles(str(cluster.files.ca), str(cert), str(key))
    write_kubeconfig(cluster.kubeconfig, address, files)
    pod = "/api/v1/namespaces/default/pods/web"
    await cluster.kubectl("get", "--raw", f"{pod}/log")
    for verb in ("exec?command=ls&stdout=true", "attach", "portforward"):
        said = await cluster.kubectl("get", "--raw", f"{pod}/{verb}", code=1)
        assert 'User "reader" cannot ' in said
    said = await cluster.kubectl("get", "--raw", "/api/v1/nodes/real/proxy/healthz", code=1)
    assert 'cannot get resource "nodes/proxy"' in said
    assert [asked.split("/")[1] for asked in cluster.kubelet.asked] == ["containerLogs"]


def reading(second: int, cpu: float) -> str:
    """What a kubelet tells of its node and of the container main of default/web."""
    labels = '{container="main",namespace="default",pod="web"}'
    at = second * 1000
    return "\n".join(
        f"{what}_cpu_usage_seconds_total{on} {cpu} {at}\n"
        f"{what}_memory_working_set_bytes{on} {64 << 20} {at}"
        for what, on in (("node", ""), ("container", labels))
    )


async def test_top_shows_what_nodes_and_pods_use(cluster: Cluster) -> None:
    await cluster.pod("web", "main")
    hollow = {"name": "thin", "labels": {"podsched.io/hollow": "true"}}
    await cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": hollow})
    cluster.kubelet.metrics = reading(100, 1.0)
    asking = asyncio.create_task(cluster.kubectl("top", "pods"))
    await eventually("a first reading", lambda: "GET /metrics/resource" in cluster.kubelet.asked)
    cluster.kubelet.metrics = reading(110, 6.0)
    assert [line.split() for line in (await asking).splitlines()][1] == ["web", "500m", "64Mi"]
    rows = [line.split() for line in (await cluster.kubectl("top", "nodes")).splitlines()]
    assert ["real", "500m"] in [row[:2] for row in rows]
    raw = "/apis/metrics.k8s.io/v1beta1/nodes"
    assert '"thin"' not in await cluster.kubectl("get", "--raw", raw)
    gone = await cluster.kubectl("get", "--raw", f"{raw}/thin", code=1)
    assert 'nodemetrics.metrics.k8s.io "thin" not found' in gone
