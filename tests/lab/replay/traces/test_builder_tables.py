"""Tables of any content are read in a bounded memory, and end."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from podsched.lab.replay.traces import alibaba2018, azure, google2011
from podsched.lab.replay.traces.builder import BadTrace, rows


def test_a_quoted_field_may_go_over_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('a,"b\nc"\nd,e\n')
    assert [row.text(1) for row in rows(tmp_path, "t")] == ["b\nc", "e"]


def test_a_table_of_one_endless_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(bytes(9 << 20), 1))
    with pytest.raises(BadTrace, match=r"t\.csv\.gz: line 1: more than 1 MiB in a line"):
        list(rows(tmp_path, "t"))


def test_a_part_that_never_ends_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").symlink_to("/dev/zero")
    with pytest.raises(BadTrace, match="line 1: more than"):
        list(rows(tmp_path, "t"))


def test_a_gzipped_table_that_is_broken_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"a,b\n" * 10_000))
    whole[40:60] = bytes(20)
    (tmp_path / "t.csv.gz").write_bytes(whole)
    with pytest.raises(BadTrace, match=r"t\.csv\.gz"):
        list(rows(tmp_path, "t"))


def a_machine(cores: str = "4", memory: str = "16", created: str = "0", deleted: str = "60") -> str:
    return f"vm,s,d,{created},{deleted},1,1,1,Interactive,{cores},{memory}\n"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (a_machine(cores="1e300"), "line 1: field 10: 1e\\+300 is more than"),
        (a_machine(memory="-1"), "line 1: field 11: -1 is negative"),
        (a_machine(created="9" * 25), "line 1: field 4: 1e\\+25 is more than"),
        (a_machine(cores="999999") * 300, "more than 50,000 nodes"),
    ],
)
def test_amounts_that_no_machine_has_are_refused(tmp_path: Path, row: str, told: str) -> None:
    rows_ = row.splitlines(keepends=True)
    (tmp_path / "vmtable.csv").write_text("".join(rows_))
    with pytest.raises(BadTrace, match=told):
        azure.read(tmp_path)


def test_a_task_of_countless_instances_is_refused(tmp_path: Path) -> None:
    (tmp_path / "machine_meta.csv").write_text("m_1,0,1,2,96,100,USING\n")
    (tmp_path / "batch_task.csv").write_text("t,1e300,j,1,Terminated,1,2,100,0.5\n")
    with pytest.raises(BadTrace, match="line 1: field 2: 1e\\+300 is more than"):
        alibaba2018.read(tmp_path)


def test_what_is_later_than_any_trace_lasts_is_not_read(tmp_path: Path) -> None:
    """Google's own mark for after the end is 2^63 - 1 microseconds."""
    (tmp_path / "machine_events.csv").write_text("0,1,0,p,0.5,0.5\n9223372036854775807,2,0,p,1,1\n")
    task = "{0},,7,0,,0,user,0,1,0.1,0.1,0.1,0\n"
    (tmp_path / "task_events.csv").write_text(
        task.format(1_000_000) + task.format(2**63 - 1).replace(",7,", ",8,")
    )
    found = google2011.read(tmp_path)
    assert found.seconds == 1.0
    assert [change.key for change in found.changes] == ["trace/job-7-0"]
