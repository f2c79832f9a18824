"""``sched apply`` and ``sched delete``, as far as they need no server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.api.reasons import StatusCode
from podsched.cli.manifests import written_hash
from podsched.cli.objects import Writer
from podsched.cli.options import DryRun
from podsched.serve.client.errors import AlreadyExists, Forbidden, TooLarge
from podsched.serve.server.patching import patched
from podsched.testing.fake_cluster import FakeCluster
from podsched.v1.api_pb2 import JSON_MERGE_PATCH, STRATEGIC_MERGE_PATCH, BatchResult
from support.command_client import CommandClient
from support.commands import Commands
from support.engine_world import node, pod


class OneObject:
    """A client of a server with one object."""

    def __init__(self, stored: AnyObject) -> None:
        self.stored = stored

    async def create(self, message: AnyObject, *, dry_run: bool) -> AnyObject:
        raise AlreadyExists("it exists")

    async def get(self, kind: str, name: str, namespace: str) -> AnyObject:
        return self.stored

    async def patch(
        self,
        kind: str,
        name: str,
        patch: dict[str, Any],
        namespace: str,
        *,
        strategic: bool,
        dry_run: bool,
    ) -> AnyObject:
        way = STRATEGIC_MERGE_PATCH if strategic else JSON_MERGE_PATCH
        self.stored = patched(self.stored, patch, way)
        return self.stored


@pytest.mark.parametrize(("kind", "path"), [("Pod", "spec"), ("Job", "spec.template.spec")])
async def test_what_others_have_filled_into_a_container_stays(kind: str, path: str) -> None:
    """As kubectl does with pods: the server would refuse containers that lack it."""

    def made(container: dict[str, Any]) -> AnyObject:
        content: dict[str, Any] = {"containers": [{"name": "c", "image": "i:1"} | container]}
        for field in reversed(path.split(".")):
            content = {field: content}
        version = "batch/v1" if kind == "Job" else "v1"
        metadata = {"name": "web", "namespace": "default"}
        manifest = {"apiVersion": version, "kind": kind, "metadata": metadata} | content
        return from_manifest(manifest).message

    stored = made({"terminationMessagePolicy": "File"})
    client: Any = OneObject(stored)
    writer = Writer(client, lambda: None, DryRun.NONE)
    await writer.apply([made({})])
    assert client.stored == stored


async def test_ports_of_one_number_for_two_protocols_stay_as_they_are() -> None:
    def web(image: str, **tcp: str) -> Pod:
        udp = {"containerPort": 53, "name": "dns", "protocol": "UDP"}
        ports = [udp, {"containerPort": 53, "name": "dns-tcp", **tcp}]
        return pod("web", {"containers": [{"name": "c", "image": image, "ports": ports}]})

    client: Any = OneObject(web("i:1", protocol="TCP"))
    await Writer(client, lambda: None, DryRun.NONE).apply([web("i:2")])
    assert client.stored == web("i:2", protocol="TCP")


async def test_a_toleration_that_others_have_added_to_a_pod_stays() -> None:
    """Its RuntimeClass, say: the server would refuse a pod without it."""
    own, added = ({"key": key, "operator": "Exists"} for key in ("own", "added"))
    client: Any = OneObject(pod("web", {"tolerations": [own, added]}))
    manifest = pod("web", {"tolerations": [own, own | {"key": "new"}]})
    await Writer(client, lambda: None, DryRun.NONE).apply([manifest])
    assert [t.key for t in client.stored.spec.tolerations] == ["own", "new", "added"]


async def test_an_object_that_is_too_large_keeps_no_other_from_being_created(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Small:
        """A server that takes at most four MiB at once."""

        async def create(self, message: AnyObject, *, dry_run: bool) -> AnyObject:
            await self.create_many([message], dry_run=dry_run)
            return message

        async def create_many(self, items: list[AnyObject], *, dry_run: bool) -> Any:
            if sum(item.ByteSize() for item in items) > 4 << 20:
                raise TooLarge("too large")
            return [BatchResult() for _ in items]

    huge = pod("huge")
    huge.metadata.annotations["a"] = "x" * (5 << 20)
    client: Any = Small()
    await Writer(client, lambda: None, DryRun.NONE).create([pod("a"), huge, pod("b")])
    told = capsys.readouterr()
    assert told.out.splitlines() == ["pod/a created", "pod/b created"]
    assert told.err.splitlines() == ["error: pod/huge: too large"]


@pytest.mark.parametrize("planned", [False, True], ids=["created", "patched"])
async def test_what_follows_a_refused_write_of_a_plan_is_not_written(
    capsys: pytest.CaptureFixture[str], planned: bool
) -> None:
    class Refusing(OneObject):
        async def create(self, message: AnyObject, *, dry_run: bool) -> AnyObject:
            raise Forbidden("you may not")

        async def patch(self, *_: Any, **__: Any) -> AnyObject:
            raise Forbidden("you may not")

    first, second = node("n"), pod("web")
    writes = [(item, written_hash(first) if planned else "") for item in (first, second)]
    client: Any = Refusing(first)
    await Writer(client, lambda: None, DryRun.NONE).carry_out(writes)
    told = capsys.readouterr()
    assert told.err.splitlines() == [
        "error: node/n: you may not",
        "error: 0 of 2 writes of the plan were made",
    ]


async def test_what_was_created_with_a_refused_object_of_a_plan_is_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Full:
        """A server with room for all but one."""

        async def create_many(self, items: list[AnyObject], *, dry_run: bool) -> Any:
            refused = BatchResult(code=StatusCode.PERMISSION_DENIED, message="exceeded quota")
            return [refused if item.metadata.name == "b" else BatchResult() for item in items]

    client: Any = Full()
    writes = [(item, "") for item in (pod("a"), pod("b"), pod("c"), node("n"))]
    await Writer(client, lambda: None, DryRun.NONE).carry_out(writes)
    told = capsys.readouterr()
    assert told.out.splitlines() == ["pod/a created", "pod/c created"]
    assert told.err.splitlines()[1:] == ["error: 2 of 4 writes of the plan were made"]


@pytest.mark.parametrize("change", ["status", "spec"])
async def test_of_what_is_written_while_a_plan_is_carried_out_only_a_status_does_not_matter(
    capsys: pytest.CaptureFixture[str], change: str
) -> None:
    class Others(CommandClient):
        """Somebody writes a node after it is first read."""

        async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
            found = await super().get(kind, name, namespace)
            if len(self.calls) == 1:
                other: Any = self.cluster.object(kind, name)
                other.spec.unschedulable = change == "spec"
                other.status.phase = "Running"
                self.cluster.update(other)
            return found

    labeled = node("n", labels={"a": "b"})
    client: Any = Others(FakeCluster())
    there = client.cluster.create(node("n"))
    await Writer(client, lambda: None, DryRun.NONE).carry_out([(labeled, written_hash(there))])
    told = capsys.readouterr()
    if change == "status":
        assert told.out == "node/n configured\n"
    else:
        assert "error: node/n: it has been changed since the plan was made" in told.err


@pytest.mark.looptime
async def test_of_two_manifests_of_one_object_the_second_has_the_last_word() -> None:
    class Slow(OneObject):
        """Its first answer takes longer than those after it."""

        seconds = 1.0

        async def create_many(self, items: list[AnyObject], *, dry_run: bool) -> Any:
            return [BatchResult(code=StatusCode.ALREADY_EXISTS) for _ in items]

        async def get(self, kind: str, name: str, namespace: str) -> AnyObject:
            seconds, self.seconds = self.seconds, 0.0
            await asyncio.sleep(seconds)
            return self.stored

    first, second = pod("web"), pod("web")
    first.metadata.labels["is"], second.metadata.labels["is"] = "first", "second"
    client: Any = Slow(pod("web"))
    await Writer(client, lambda: None, DryRun.NONE).apply([first, second])
    assert client.stored.metadata.labels["is"] == "second"


async def test_an_object_that_may_not_be_read_keeps_no_other_from_being_applied(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Unread(OneObject):
        async def get(self, kind: str, name: str, namespace: str) -> AnyObject:
            raise Forbidden("you may not get it")

    client: Any = Unread(pod("web"))
    writer = Writer(client, lambda: None, DryRun.NONE)
    await writer.apply([pod("web"), node("n")])
    assert writer.failures == 2
    told = capsys.readouterr().err.splitlines()
    assert told == [f"error: {name}: you may not get it" for name in ("pod/web", "node/n")]


def test_delete_warns_of_objects_of_unknown_kinds_in_manifests(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: d}\n")
    warning, rest = sched("delete", "-f", str(file)).errors
    assert warning.startswith(f"warning: skipped: {file}: Rollout d: ")
    assert rest == "No resources found."


@pytest.mark.parametrize("seconds", ["-2", "99999999999999999999"])
def test_a_grace_period_that_no_pod_can_have_is_a_usage_error(seconds: str) -> None:
    done = Commands("127.0.0.1:1")("delete", "pod", "web", "--grace-period", seconds)
    assert (done.code, done.out) == (2, "")
    assert "--grace-period" in done.err


def test_a_kind_that_must_not_be_deleted_keeps_no_other_from_going(
    sched: Commands, in_memory: CommandClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete_collection(kind: str, *_: str, **__: Any) -> int:
        if kind == "Node":
            raise Forbidden("you may not delete nodes")
        return 2

    monkeypatch.setattr(in_memory, "delete_collection", delete_collection, raising=False)
    done = sched("delete", "nodes,pods", "--all")
    assert (done.code, done.out) == (1, "2 pods deleted\n")
    assert done.errors == ["error: you may not delete nodes"]


def test_nothing_is_deleted_for_a_manifest_without_a_name(
    sched: Commands, in_memory: CommandClient
) -> None:
    named = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n---\n"
    manifest = named + named.replace("name: web", "generateName: web-")
    done = sched("delete", "-f", "-", stdin=manifest)
    assert (done.code, in_memory.calls) == (1, [])
    assert done.errors == ["error: Pod web-: no name, by which it could be deleted"]
