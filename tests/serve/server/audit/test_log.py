"""The audit log's file: rotation, full disks, too many events."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from podsched.api.reasons import StatusCode
from podsched.serve.server.audit import log
from podsched.serve.server.audit.events import AuditedCall
from podsched.serve.server.audit.log import AuditLog, AuditSettings
from podsched.serve.server.audit.policy import AuditPolicy
from podsched.v1.api_pb2 import GetRequest


def call(number: int) -> AuditedCall:
    request = GetRequest(kind="Pod", namespace="a", name=f"web-{number}")
    return AuditedCall(
        method="Get", request=request, response=b"", identity=None, peer="ipv4:127.0.0.1:1",
        user_agent="", request_id=f"request-{number}", code=StatusCode.OK, error=None,
        received=0.0, completed=0.1,
    )  # fmt: skip


def written(path: Path) -> list[str]:
    return [json.loads(line)["auditID"] for line in path.read_text().splitlines()]


def run(settings: AuditSettings, count: int) -> AuditLog:
    """Write some calls and stop."""
    audit = AuditLog(settings)
    audit.start()
    for number in range(count):
        audit.record(call(number))
    audit.stop()
    return audit


def test_every_call_is_a_line_of_a_file_that_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = run(AuditSettings(path=path), 20)
    assert written(path) == [f"request-{number}" for number in range(20)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (audit.written, sum(audit.dropped.values())) == (20, 0)


def test_a_file_that_is_there_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    run(AuditSettings(path=path), 1)
    run(AuditSettings(path=path), 1)
    assert len(written(path)) == 2


def test_calls_that_the_policy_leaves_out_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    run(AuditSettings(path=path, policy=AuditPolicy()), 3)
    assert path.read_text() == ""


def test_a_full_file_is_renamed_and_old_ones_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    (tmp_path / "audit.log-2020-01-01T00-00-00.000000").write_text("old")
    run(AuditSettings(path=path, max_bytes=2000, max_backups=2), 20)
    assert path.stat().st_size <= 2000
    backups = sorted(tmp_path.glob("audit.log-*"))
    assert len(backups) == 2
    assert all(backup.stat().st_size <= 2000 for backup in backups)
    assert written(path)[-1] == "request-19"


def test_files_older_than_their_days_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "audit.log-2020-01-01T00-00-00.000000"
    old.write_text("old")
    os.utime(old, (1.0, 1.0))
    run(AuditSettings(path=tmp_path / "audit.log", max_bytes=1000, max_days=1), 5)
    assert not old.exists()


def test_only_its_own_files_are_removed(tmp_path: Path) -> None:
    """Another server on the machine may write into the same directory."""
    others = [tmp_path / "audit-b", tmp_path / "audit-b-2020-01-01T00-00-00.000000"]
    for other in others:
        other.write_text("of another server")
        os.utime(other, (1.0, 1.0))
    run(AuditSettings(path=tmp_path / "audit", max_bytes=1000, max_backups=2, max_days=1), 20)
    assert all(other.exists() for other in others)
    assert len([*tmp_path.glob("audit-2*")]) == 2


def test_a_full_disk_costs_events_and_nothing_else() -> None:
    with capture_logs() as lines:
        audit = run(AuditSettings(path=Path("/dev/full")), 5)
    assert (audit.written, audit.dropped) == (0, {"buffer": 0, "log": 5})
    assert [line["event"] for line in lines] == ["Audit events are dropped"]


def test_events_that_the_disk_cannot_keep_up_with_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_WAITING", 3)
    audit = AuditLog(AuditSettings(path=tmp_path / "audit.log"))
    with capture_logs():
        for number in range(5):  # nothing is written yet
            audit.record(call(number))
    assert audit.dropped["buffer"] == 2
    audit.start()
    audit.stop()
    assert audit.written == 3


def test_a_file_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        AuditLog(AuditSettings(path=tmp_path / "missing" / "audit.log"))
