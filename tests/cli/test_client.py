"""Commands as clients of an API server, as far as they need none."""

from __future__ import annotations

import asyncio
import gc
import signal
from pathlib import Path

import pytest
import typer

from podsched.cli.client import for_each, with_client
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import OutcomeUnknown, Unavailable, in_doubt
from support.commands import Commands


def test_a_command_that_has_nothing_to_act_on_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    async def none(_: ApiClient) -> list[str]:
        return []

    async def act(_: ApiClient, name: str) -> None:
        raise AssertionError(name)

    for_each("127.0.0.1:1", none, act)
    assert capsys.readouterr().err == "No resources found.\n"


@pytest.mark.parametrize("variable", ["SCHED_TLS_CA", "SCHED_TOKEN_FILE"])
def test_a_file_of_the_environment_in_another_format_is_a_usage_error(
    variable: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\0 neither")
    monkeypatch.setenv(variable, str(file))
    done = Commands("127.0.0.1:1")("get", "pods")
    assert (done.code, len(done.errors)) == (2, 1)
    assert str(file) in done.err


@pytest.mark.parametrize(
    "words", [("delete", "pods", "--all"), ("label", "pods", "--all", "a=b"), ("get", "pods")]
)
def test_an_empty_namespace_is_a_usage_error_and_not_all_of_them(words: tuple[str, ...]) -> None:
    done = Commands("127.0.0.1:1")(*words, "-n", "")
    assert done.code == 2
    assert done.err == 'error: --namespace: "" is not the name of a namespace\n'


def test_a_server_that_dies_under_a_question_to_replicas_is_one_that_cannot_be_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def ask(_: ApiClient) -> None:
        raise in_doubt(OutcomeUnknown("Socket closed"))

    with pytest.raises(typer.Exit) as ended:
        with_client("127.0.0.1:1", ask, of_replicas=True)
    assert ended.value.exit_code == 3
    assert "cannot reach the API server at 127.0.0.1:1: Socket closed" in capsys.readouterr().err


def test_a_second_interrupt_ends_a_command_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tidies_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGINT)

    async def work(_: ApiClient) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(tidies_up())
            await asyncio.sleep(0)
            signal.raise_signal(signal.SIGINT)

    try:
        with_client("127.0.0.1:1", work)
    except typer.Exit as ended:
        code = ended.exit_code
    gc.collect()
    told = [line for line in caplog.messages if "with_client" in line]  # of no other test's tasks
    assert (code, told) == (130, [])


def test_a_server_without_its_store_is_not_one_that_cannot_be_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    why = "the store is unavailable: no leader"

    async def ask(_: ApiClient) -> None:
        raise Unavailable(why, reason="UNAVAILABLE")

    with pytest.raises(typer.Exit) as ended:
        with_client("127.0.0.1:1", ask)
    assert ended.value.exit_code == 3
    said = capsys.readouterr().err
    assert said == f"error: the API server at 127.0.0.1:1 cannot serve this now: {why}\n"
