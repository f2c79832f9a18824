"""Showing objects that may not all be read, and watching them while servers come and go."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from typing import Any, cast

import pytest

from podsched.api.kinds import KINDS
from podsched.cli.client import outage_on_stderr
from podsched.cli.formats import Format
from podsched.cli.get import Selection, show
from podsched.cli.targets import Target
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse
from support.api_objects import pod
from support.command_client import CommandClient
from support.commands import Commands
from support.engine_world import node
from support.scripted_watches import Streams


def response(revision: int, *pods: tuple[str, int]) -> RawWatchResponse:
    events = []
    for name, changed in pods:
        wrapped = v1.Object(pod=pod(name))
        wrapped.pod.metadata.resource_version = str(changed)
        events.append(RawWatchEvent(type=v1.ADDED, object=wrapped.SerializeToString()))
    return RawWatchResponse(events=events, revision=revision)


class Over(ClientError):
    """The end of a script."""


async def followed(streams: Streams, on_reached: Any = lambda reached: None) -> list[str]:
    """The names of what is shown from revision 5 on."""
    names: list[str] = []
    client = cast(ApiClient, cast(Any, streams))
    with pytest.raises(Over):
        async for change in Selection("", "").changes(
            client, Target(KINDS["Pod"], "", "default"), 5, on_reached
        ):
            names.append(change.object.metadata.name)
    return names


@pytest.mark.looptime
async def test_a_watch_goes_on_where_it_broke() -> None:
    streams = Streams(
        ([response(7, ("a", 7))], Unavailable("gone")),
        ([response(9, ("b", 9))], Over("")),
    )
    assert await followed(streams) == ["a", "b"]
    assert streams.asked == [(5, False), (7, False)]


@pytest.mark.looptime
async def test_all_changes_that_come_together_are_shown() -> None:
    streams = Streams(([response(8, ("a", 7), ("b", 8), ("c", 8))], Over("")))
    assert await followed(streams) == ["a", "b", "c"]


@pytest.mark.looptime
async def test_a_server_that_forgot_the_history_is_asked_for_everything() -> None:
    """What has not changed since is not shown again."""
    streams = Streams(
        ([response(7, ("a", 7))], Unavailable("gone")),
        ([], Compacted("list again")),
        ([response(0, ("old", 3), ("a", 7), ("b", 8)), response(9)], Unavailable("gone")),
        ([response(10, ("c", 10))], Over("")),
    )
    assert await followed(streams) == ["a", "b", "c"]
    assert streams.asked == [(5, False), (7, False), (0, True), (9, False)]


@pytest.mark.looptime
async def test_changes_are_shown_after_etcd_was_restored_though_its_revisions_begin_again() -> None:
    streams = Streams(
        ([response(7, ("a", 7))], Unavailable("gone")),
        ([], Compacted("list again")),
        ([response(0, ("a", 3)), response(4), response(6, ("b", 5), ("c", 6))], Over("")),
    )
    assert await followed(streams) == ["a", "b", "c"]


@pytest.mark.looptime
async def test_that_no_server_answers_is_told_once_and_so_is_its_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another server may answer after one failure, so a single one is not told."""
    gone = Unavailable("gone")
    streams = Streams(
        ([response(7, ("a", 7))], gone),
        ([response(8)], gone),
        ([], gone),
        ([], gone),
        ([], Compacted("list again")),
        ([response(0), response(9)], Over("")),
    )
    await followed(streams, outage_on_stderr("api:1"))
    assert capsys.readouterr().err.splitlines() == [
        "The API server at api:1 does not answer; trying again.",
        "The API server at api:1 answers again.",
    ]


def test_a_kind_that_may_not_be_read_hides_no_other(
    sched: Commands, in_memory: CommandClient
) -> None:
    in_memory.cluster.create(pod("web"))
    in_memory.forbidden = {"Node"}
    done = sched("get", "nodes,pods", "-o", "name")
    assert (done.code, done.out) == (1, "pod/web\n")
    assert done.errors == ["error: you may not use Node"]


async def ended(request: v1.WatchRequest) -> AsyncIterator[RawWatchResponse]:
    for kind in request.kinds:
        raise Over(f"the end of the watch of {kind}")
    yield RawWatchResponse()


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("jsonpath={.metadata.name}:{.kind};", "a:Pod;b:Pod;"),
        ("name", "pod/a\npod/b\n"),
        ("custom-columns=NAME:.metadata.name", "NAME\na\nb\n"),
    ],
)
def test_a_watch_shows_the_objects_that_are_there_already_one_by_one(
    sched: Commands, in_memory: CommandClient, output: str, shown: str
) -> None:
    """As it shows changes, so that one template serves for both."""
    for name in ("a", "b"):
        in_memory.cluster.create(pod(name))
    in_memory.watch_stream = ended  # type: ignore[method-assign]
    assert sched("get", "pods", "-w", "-o", output).out == shown


class Terminal(io.StringIO):
    """Standard output that a person reads."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("output", "shown"), [(io.StringIO(), "\x1b[2J\r\n"), (Terminal(), "\\x1b[2J\\r\n")]
)
def test_a_template_gives_what_is_stored_but_moves_no_cursor(
    output: io.StringIO, shown: str
) -> None:
    with redirect_stdout(output):
        show(Format("jsonpath"), "\x1b[2J\r\n")
    assert output.getvalue() == shown


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("jsonpath={.kind}:{range .items[*]}{.metadata.name}{end};", "List:;"),
        ("custom-columns=NAME:.metadata.name", "NAME\n"),
        ("name", ""),
    ],
)
def test_an_empty_list_is_a_list(
    sched: Commands, in_memory: CommandClient, output: str, shown: str
) -> None:
    done = sched("get", "pods", "-o", output)
    assert (done.code, done.out, done.err) == (0, shown, "")


def test_one_object_is_not_searched_in_all_namespaces(
    sched: Commands, in_memory: CommandClient
) -> None:
    in_memory.cluster.create(node("n"))
    assert sched.ok("get", "node/n", "-A", "-o", "name") == "node/n\n"
    done = sched("get", "pod/web", "-A")
    assert done.code == 2
    assert done.errors == ["error: NAME and --all-namespaces cannot be combined: use --namespace"]


def test_nodes_are_shown_without_their_usage_to_those_who_may_not_read_pods(
    sched: Commands, in_memory: CommandClient
) -> None:
    in_memory.cluster.create(node("n"))
    assert "0/4" in sched.ok("get", "nodes")
    in_memory.forbidden = {"Pod"}
    assert "0/4" not in sched.ok("get", "nodes")
