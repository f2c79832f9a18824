"""``sched delete``, as far as it needs no server."""

from __future__ import annotations

from pathlib import Path

from support.commands import Commands


def test_delete_warns_of_objects_of_unknown_kinds_in_manifests(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: d}\n")
    [line] = sched("delete", "-f", str(file)).errors
    assert line.startswith(f"warning: skipped: {file}: Rollout d: ")
