"""What ``sched plan`` finds wrong without a server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from podsched.api.manifest import to_manifest
from podsched.api.objects import Node, Pod
from podsched.cli.plan import Action, Write, try_changes
from podsched.serve.client.errors import Forbidden, Invalid
from support.api_objects import priority_class
from support.command_client import CommandClient
from support.commands import Commands
from support.engine_world import node, pod


class Strict:
    """A client whose server refuses some changes, and has filled in a field of all pods."""

    async def patch(self, kind: str, name: str, *_: Any, dry_run: bool, **__: Any) -> Pod:
        assert dry_run
        if name == "frozen":
            raise Invalid('Pod "frozen" is invalid')
        if name == "others":
            raise Forbidden("you may not")
        return stored(name, labels={"app": "web"} if name == "labeled" else {})


def stored(name: str, labels: dict[str, str] | None = None) -> Pod:
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace = name, "default"
    pod.metadata.labels.update(labels or {})
    pod.spec.dns_policy = "ClusterFirst"
    return pod


BEFORE = {f"Pod/default/{name}": stored(name) for name in ("fine", "labeled", "frozen", "others")}


def write(action: Action, name: str) -> Write:
    pod = Pod()
    pod.metadata.name, pod.metadata.namespace = name, "default"
    return Write(action, pod, pod)


async def test_a_change_that_the_server_would_refuse_is_told_before_it_is_carried_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = [write(Action.CONFIGURE, name) for name in ("labeled", "frozen", "others")]
    writes = [*changes, write(Action.CREATE, "frozen")]
    client: Any = Strict()
    tried = await try_changes(client, writes, BEFORE)
    actions = [one.action if one is not None else None for one in tried]
    rights = "rights are those of who carries it out"
    assert actions == [Action.CONFIGURE, None, Action.CONFIGURE, Action.CREATE], rights
    assert capsys.readouterr().err == 'error: pod/frozen: Pod "frozen" is invalid\n'


async def test_what_only_lacks_what_the_server_has_filled_in_is_unchanged() -> None:
    client: Any = Strict()
    [tried] = await try_changes(client, [write(Action.CONFIGURE, "fine")], BEFORE)
    assert tried is not None
    assert (tried.action, tried.after) == (Action.UNCHANGED, stored("fine"))


class Written:
    """A client whose server has had a write of a controller since the plan's read."""

    def __init__(self, labels: dict[str, str]) -> None:
        self._labels = labels

    async def patch(self, kind: str, name: str, *_: Any, **__: Any) -> Pod:
        pod = await self.get(kind, name, "default")
        pod.metadata.labels.update(self._labels)
        return pod

    async def get(self, kind: str, name: str, namespace: str) -> Pod:
        pod = stored(name)
        pod.metadata.resource_version = "2"
        pod.status.phase = "Running"
        return pod


@pytest.mark.parametrize(
    ("labels", "action"), [({}, Action.UNCHANGED), ({"app": "web"}, Action.CONFIGURE)]
)
async def test_what_others_write_meanwhile_is_no_effect_of_the_manifest(
    labels: dict[str, str], action: Action
) -> None:
    client: Any = Written(labels)
    [tried] = await try_changes(client, [write(Action.CONFIGURE, "fine")], BEFORE)
    assert tried is not None
    assert tried.action is action


@pytest.fixture
def labeled(
    sched: Commands, in_memory: CommandClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """The token of a plan that labels node a."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    in_memory.cluster.create(node("a"))
    manifest = "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {x: y}}"
    made = json.loads(sched.ok("plan", "-f", "-", "-o", "json", stdin=manifest))
    assert made["writes"] == [{"action": "configure", "object": "Node/a"}]
    return str(made["token"])


def changed_node(in_memory: CommandClient, change: Callable[[Node], object]) -> None:
    found = in_memory.cluster.object("Node", "a")
    assert isinstance(found, Node)
    change(found)
    in_memory.cluster.update(found)


def heartbeat(there: Node) -> None:
    there.status.conditions.add(type="Ready", status="True")


def test_a_plan_does_not_mind_a_heartbeat_of_the_node_that_it_changes(
    sched: Commands, in_memory: CommandClient, labeled: str
) -> None:
    changed_node(in_memory, heartbeat)
    assert sched.ok("apply", "--plan", labeled) == "node/a configured\n"
    labels: list[str] = []
    changed_node(in_memory, lambda there: labels.extend(there.metadata.labels))
    assert labels == ["x"]


def test_a_plan_is_refused_if_somebody_else_has_changed_what_it_changes(
    sched: Commands, in_memory: CommandClient, labeled: str
) -> None:
    changed_node(in_memory, lambda there: there.metadata.annotations.update(by="another"))
    refused = sched("apply", "--plan", labeled)
    assert (refused.code, refused.out) == (1, "")
    assert refused.errors[1:] == ["  Node/a is changed"]
    assert "patch Node a" not in in_memory.calls[-1]


def test_a_plan_that_is_decided_again_counts_what_the_server_has_filled_in(
    sched: Commands, in_memory: CommandClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bare = {"name": "c", "image": "app:1"}
    asking = bare | {"resources": {"requests": {"cpu": "2"}}}
    more = bare | {"resources": {"requests": {"cpu": "3"}}}
    there = pod("there", {"nodeName": "a", "containers": [more]})
    beside = pod("beside", {"nodeName": "b", "containers": [asking]})
    for item in (node("a"), node("b"), there, beside):
        in_memory.cluster.create(item)
    manifest = pod("there", {"nodeName": "a", "containers": [bare]}, uid="")
    new = pod("new", {"containers": [asking]}, uid="")
    text = "\n---\n".join(json.dumps(to_manifest(item)) for item in (manifest, new))
    made = json.loads(sched.ok("plan", "-f", "-", "-o", "json", stdin=text))
    assert made["pods"] == [{"pod": "default/new", "node": "b"}]
    in_memory.cluster.create(priority_class("unrelated", 1))
    assert sched.ok("apply", "--plan", made["token"]) == "pod/new created\n"


@pytest.mark.parametrize(
    ("manifest", "mistake"),
    [
        ("kind: Rollout\nmetadata: {name: web}", "no object of a kind that podsched has"),
        ("kind: Pod", "Pod without a name"),
        (
            "kind: Pod\nmetadata: {name: p}\n---\napiVersion: v1\n"
            "kind: Pod\nmetadata: {name: p, labels: {app: web}}",
            "pod/p has several manifests that differ",
        ),
    ],
)
def test_a_plan_of_nothing_that_can_be_planned_is_an_error(
    tmp_path: Path, manifest: str, mistake: str
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(f"apiVersion: v1\n{manifest}\n")
    done = Commands("127.0.0.1:1")("plan", "-f", str(file))
    assert done.code in (1, 2), "3 would say that the server was asked"
    assert mistake in done.errors[-1]
