"""``sched decisions`` on the log of a scheduler, without a cluster."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from podsched.ask.decisions import stores
from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.log import DecisionLog, facts_of
from podsched.ask.decisions.stores import DirectoryStore
from podsched.cli.decisions import Known, _in_directory, follow, forget, unseen
from podsched.serve.client.errors import ClientError, Unavailable
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import DecisionMetrics
from podsched.v1.decisions_pb2 import DecisionRecord, DecisionsRequest
from support.commands import Commands

sched = Commands()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log with a pod that was bound and one that fits nowhere."""
    first = FrameWriter().facts(facts_of("scheduler-0_ab12"), 1.0)
    store = DirectoryStore(tmp_path / "log", 1 << 20, first)
    log, now = DecisionLog(store, DecisionMetrics(MetricRegistry())), time.monotonic()
    scores = [("n1", 300, {"NodeResourcesFit": 300}), ("n2", 290, {"NodeResourcesFit": 290})]
    common = ("default-scheduler", 7, 42, 0, 3, now - 0.2, now, 0.001)
    more = {"scores": scores, "tied_nodes": 1}
    chosen = ("default", "web-0", "u1", 1, "c1", 2, 2, "n1", 300, now - 0.5, more)
    nowhere = ("default", "big", "u2", 4, "c2", 2, 0, "", None, now - 0.5, None)
    log.put(("decided", common, [(1, *chosen), (2, *nowhere)]), 2)
    log.put(("bound", ["u1"], now + 0.1))
    log.put(("ended", "u2", "Unschedulable", "0/2 nodes are available", now, None))
    log.close()
    return tmp_path / "log"


def test_decisions_are_shown_as_a_table(directory: Path) -> None:
    shown = sched("decisions", "--file", str(directory))
    assert [line.split()[1:] for line in shown.out.splitlines()] == [
        ["POD", "TRY", "NODE", "SCORE", "FIT", "OUTCOME"],
        ["web-0", "1", "n1", "300", "2/2", "Scheduled"],
        ["big", "4", "<none>", "-", "0/2", "Unschedulable"],
    ]
    assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.parametrize("name", ["web-0", "pod/web-0"])
def test_everything_is_told_of_one_pod(directory: Path, name: str) -> None:
    shown = sched("decisions", name, "--file", str(directory)).out
    assert "web-0: Scheduled, attempt 1" in shown
    assert "scheduler-0_ab12, term 7, revision 42, number 1" in shown
    assert ["NodeResourcesFit", "300", "290"] in [line.split() for line in shown.splitlines()]


def test_what_is_told_of_one_pod_fits_a_terminal(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for name in ("web-0", "big"):
        lines = sched("decisions", name, "--file", str(directory)).out.splitlines()
        assert max(map(len, lines)) <= 40
        texts = [line[:14].rstrip() for line in lines if line.startswith("  ") and line[2] != " "]
        assert texts[:4] == ["  decided", "  by", "  profile", "  fits"]


def test_scores_that_are_too_wide_are_turned_with_plugins_under_letters(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    lines = sched("decisions", "web-0", "--file", str(directory)).out.splitlines()
    at = next(number for number, line in enumerate(lines) if "SCORES" in line)
    assert [line.split() for line in lines[at : at + 4]] == [
        ["SCORES", "a", "total"],
        ["n1", "300", "300"],
        ["n2", "290", "290"],
        ["a", "NodeResourcesFit"],
    ]


def test_json_is_a_record_a_line(directory: Path) -> None:
    shown = sched("decisions", "-o", "json", "--reason", "0/2", "--file", str(directory)).out
    (record,) = [json.loads(line) for line in shown.splitlines()]
    assert (record["name"], record["evaluatedNodes"], record["outcome"]) == (
        "big",
        2,
        "Unschedulable",
    )


def test_decisions_are_exported_as_json_lines(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    done = sched("decisions", "--export", str(path), "--file", str(directory))
    assert done.err == f"2 decisions written to {path}\n"
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == ["1", "2"]


def test_decisions_are_exported_as_parquet(directory: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "out.parquet"
    sched("decisions", "--export", str(path), "--file", str(directory))
    one, other = parquet.read_table(path).to_pylist()
    assert (one["number"], one["node_name"], one["total"]) == (1, "n1", 300)
    assert one["scores"][1]["plugins"] == [("NodeResourcesFit", 290)]
    assert other["total"] is None
    assert abs(one["decided_time"].timestamp() - time.time()) < 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "/nowhere"], "error: --file: /nowhere: no such directory"),
        (["--file", "/"], "error: --file: /: no decision log: give one replica's --decision-log, "),
        (["--since", "soon"], 'error: --since: "soon" is neither a duration such as 10m nor'),
        (["--since", "-1m"], 'error: --since: "-1m" is neither a duration such as 10m nor'),
        (["node/n1"], 'error: "node/n1" is not the name of a pod'),
        (["pod/"], 'error: "pod/" is not the name of a pod'),
        (["web-0", "-A"], "error: POD and --all-namespaces cannot be combined: use --namespace"),
        (["--replica", "r"], "error: --replica and --file cannot be used together: DIR is the log"),
        (["-o", "yaml"], "error: --output: yaml is not one of table, wide, json"),
        (["--export", "x.csv"], "error: --export: x.csv: the name must end in .jsonl or .parquet"),
    ],
)
def test_mistakes_are_told_in_a_line(directory: Path, arguments: list[str], message: str) -> None:
    done = sched("decisions", "--file", str(directory), *arguments)
    assert done.code == 2
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


@pytest.fixture
def garbage(directory: Path) -> Path:
    """A log with a small frame of many rows that are no decisions."""
    frame = FrameWriter().rows([[7]] * 200_000, (1.0, time.time() + 1e6), [])
    (directory / "decisions-9999999999999.jsonl.zst").write_bytes(frame)
    return directory


def test_broken_parts_are_counted_without_keeping_them(
    garbage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MAX_SEGMENT", 1 << 20)  # as so much is reserved to read a file
    sched("decisions", "--file", str(garbage))  # imports what it needs
    tracemalloc.start()
    done = sched("decisions", "--file", str(garbage))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "200,001 broken parts were skipped: a segment does not tell whose" in done.err
    assert len(done.out.splitlines()) == 3
    assert peak < 25 << 20


async def test_a_watch_tells_of_broken_parts_once(
    garbage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look = _in_directory(garbage)
    for _ in range(3):
        assert len(await look(DecisionsRequest())) == 2
    assert capsys.readouterr().err.count("broken parts") == 1


def test_no_decision_is_later_than_the_last_moment_that_a_time_can_name(directory: Path) -> None:
    done = sched("decisions", "--file", str(directory), "--since", "9999-12-31T23:59:59-14:00")
    assert (done.code, done.err) == (0, "No decisions found.\n")


def record(number: int, decided: int, outcome: str = "", ended: int = 0) -> DecisionRecord:
    made = DecisionRecord(replica="r", number=number, outcome=outcome)
    made.decided_time.FromSeconds(decided)
    if ended:
        made.ended_time.FromSeconds(ended)
    return made


def test_a_decision_is_shown_again_once_its_outcome_is_known() -> None:
    known: Known = {}
    assert unseen(known, [record(1, 10)]) == [record(1, 10)]
    assert unseen(known, [record(1, 10)]) == []
    bound = record(1, 10, "Scheduled", ended=12)
    assert unseen(known, [bound]) == [bound]
    assert unseen(known, [bound]) == []


def test_a_watch_remembers_no_message_which_would_keep_its_whole_response() -> None:
    known: Known = {}
    unseen(known, [record(1, 10, "Scheduled", ended=12)])
    assert known == {("r", 1): ("Scheduled", 12.0)}


def test_a_long_watch_remembers_only_the_decisions_that_it_may_find_again() -> None:
    known: Known = {}
    unseen(known, [record(1, 10), record(2, 10, "Scheduled", ended=30), record(3, 40)])
    forget(known, before=20)
    assert [number for _, number in known] == [2, 3]


async def followed(
    answers: list[Any], request: DecisionsRequest, shown: list[DecisionRecord]
) -> list[int]:
    """The numbers of the records that a watch shows, until there is no further answer."""
    left = [*answers, ClientError("the end")]

    async def look(request: DecisionsRequest) -> list[DecisionRecord]:
        answer = left.pop(0)
        if isinstance(answer, ClientError):
            raise answer
        return [r for r in answer if r.decided_time.seconds >= request.since.seconds]

    told: list[int] = []
    view: Any = SimpleNamespace(show=lambda new: told.extend(one.number for one in new))
    with pytest.raises(ClientError, match="the end"):
        await follow(look, request, view, shown)
    return told


@pytest.mark.looptime
async def test_a_watch_shows_what_is_new_although_the_server_was_away() -> None:
    """And not what was left out before because of --limit."""
    log = [record(number, 100 + number, "Scheduled", ended=100 + number) for number in range(3)]
    answers = [log, Unavailable("away"), [*log, record(3, 103)]]
    assert await followed(answers, DecisionsRequest(limit=1), log[2:]) == [3]


@pytest.mark.looptime
async def test_a_watch_says_once_that_no_replica_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = Unavailable("away")
    await followed([[], away, away, away, [record(3, 103)]], DecisionsRequest(), [])
    assert capsys.readouterr().err.splitlines() == [
        "No replica answers; trying again.",
        "A replica answers again.",
    ]


@pytest.mark.looptime
async def test_a_watch_of_what_was_never_decided_goes_by_the_clock_of_the_replicas() -> None:
    """This machine's clock is years ahead of theirs."""
    answers = [[record(1, 100)], [record(2, 103)]]
    request = DecisionsRequest(namespace="default", name="web")
    assert await followed(answers, request, []) == [2]
