"""``sched chaos`` as users see it, without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from podsched.cli import chaos
from podsched.lab.chaos.records import encode
from podsched.telemetry.logs import get_logger
from support.chaos_history import Story, good_story
from support.commands import Commands


def saved(path: Path, story: Story) -> str:
    path.write_text("".join(f"{encode(record)}\n" for record in story.records))
    return str(path)


def test_a_history_in_which_everything_was_kept_is_good(tmp_path: Path) -> None:
    said = Commands().ok("chaos", "check", saved(tmp_path / "h.jsonl", good_story()))
    assert said.endswith("0 violations\n")
    assert all(len(line) <= 80 for line in said.splitlines())


def test_a_violation_is_told_with_what_happened_around_it_and_the_seed(tmp_path: Path) -> None:
    story = Story()
    story.pod("web")
    story.gone("web")
    done = Commands()("chaos", "check", saved(tmp_path / "h.jsonl", story))
    assert done.code == 1
    assert "acknowledged create exists: pods/default/web is gone since revision 102" in done.out
    assert "c create pods/default/web -> ok" in done.out
    assert done.errors == ["error: seed 7: 1 violation of promises"]


def test_the_result_is_printed_as_json(tmp_path: Path) -> None:
    story = Story()
    story.settles(s0=1)
    done = Commands()("chaos", "check", saved(tmp_path / "h.jsonl", story), "--json")
    assert done.code == 1
    [violation] = json.loads(done.out)["violations"]
    assert violation["promise"] == "nothing left assumed"


def test_a_file_that_is_not_there_or_no_history_is_named(tmp_path: Path) -> None:
    missing = Commands()("chaos", "check", str(tmp_path / "none"))
    assert (missing.code, missing.errors) == (2, [f"error: {tmp_path}/none: no such file"])
    other = tmp_path / "other"
    other.write_text("hello\n")
    wrong = Commands()("chaos", "check", str(other))
    assert wrong.code == 2, "1 would say that a promise is broken"
    assert wrong.err.startswith(f"error: {other}: line 1: not JSON")


def test_the_report_is_written_where_it_is_asked_for(tmp_path: Path) -> None:
    history = saved(tmp_path / "h.jsonl", good_story())
    Commands().ok("chaos", "check", history, "--report", str(tmp_path / "r.html"))
    assert "All promises were kept." in (tmp_path / "r.html").read_text()
    failed = Commands()("chaos", "check", history, "--report", str(tmp_path / "none" / "r.html"))
    assert (failed.code, failed.errors) == (
        1,
        [f"error: --report {tmp_path}/none/r.html: No such file or directory"],
    )


def test_faults_are_listed_and_an_unknown_one_is_named() -> None:
    names = Commands().ok("chaos", "--faults", "list").split()
    assert "kill-leader" in names
    assert "kill-ray-head" not in names
    assert "kill-ray-head" in Commands().ok("chaos", "--ray", "--faults", "list").split()
    unknown = Commands()("chaos", "--faults", "kill-leader,kill-everybody")
    assert (unknown.code, unknown.errors) == (
        2,
        ['error: --faults: there is no "kill-everybody": did you mean kill-leader or kill-etcd?'],
    )


def test_a_fault_that_needs_something_says_what() -> None:
    done = Commands()("chaos", "--faults", "drop-leader")
    need = "replicas have network namespaces (--namespaces)"
    assert (done.code, done.errors) == (
        2,
        [f'error: --faults: "drop-leader" is only for where {need}'],
    )
    assert "drop-leader" in Commands().ok("chaos", "--namespaces", "--faults", "list").split()


def test_a_fault_that_may_last_too_long_for_the_run_is_refused() -> None:
    done = Commands()("chaos", "--faults", "kill-leader,hang-api", "--minutes", "0.5")
    said = "error: --faults: hang-api may last 8 s, which takes --minutes 0.6 or more"
    assert (done.code, done.errors) == (2, [said])


def test_without_libfaketime_the_list_says_that_clocks_are_left_out() -> None:
    with patch.object(chaos, "library", lambda: ""):
        lines = Commands().ok("chaos", "--faults", "list").splitlines()
        left_out = (
            "clock-step (left out: libfaketime is not installed; Debian: apt install faketime)"
        )
        assert left_out in lines
        assert Commands()("chaos", "--faults", "clock-step").code == 2
    with patch.object(chaos, "library", lambda: "/lib/libfaketimeMT.so.1"):
        assert "clock-step" in Commands().ok("chaos", "--faults", "list").splitlines()


def test_namespaces_are_for_root_and_not_for_ray() -> None:
    with patch("os.geteuid", lambda: 1000):
        done = Commands()("chaos", "--namespaces")
    assert (done.code, done.errors) == (2, ["error: --namespaces: needs root"])
    with patch("os.geteuid", lambda: 0), patch("shutil.which", lambda *_, **__: None):
        done = Commands()("chaos", "--namespaces")
    said = "error: --namespaces: needs the ip command (Debian: apt install iproute2)"
    assert (done.code, done.errors) == (2, [said])
    done = Commands()("chaos", "--namespaces", "--ray")
    said = "error: --namespaces: replicas there do not reach Ray; leave out --ray"
    assert (done.code, done.errors) == (2, [said])


def test_a_directory_with_something_in_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    done = Commands()("chaos", "--data-dir", str(tmp_path))
    assert (done.code, done.errors) == (2, [f"error: --data-dir: {tmp_path} is not empty"])


def test_what_the_clients_of_a_run_log_is_not_in_its_result(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(options: Any) -> None:
        get_logger("client of a run").warning("Leaving an API server")

    monkeypatch.setattr(chaos, "run_chaos", run)
    monkeypatch.setattr(chaos, "replace", lambda options, **more: options)
    chaos._run(Mock(seconds=1.0))
    said = capsys.readouterr()
    assert (said.out, "Leaving an API server" in said.err) == ("", True)
