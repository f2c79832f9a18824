"""kube-scheduler's command lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.commands import Commands


def written(sched: Commands, path: Path, *arguments: str) -> dict[str, object]:
    """The configuration in effect."""
    sched.ok("scheduler", *arguments, "--write-config-to", str(path))
    found: dict[str, object] = yaml.safe_load(path.read_text())
    return found


def test_the_command_line_wins_over_the_file(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "in.yaml"
    file.write_text("leaderElection: {leaseDuration: 30s, resourceName: mine}\nparallelism: 3\n")
    found = written(
        sched,
        tmp_path / "out.yaml",
        f"--config={file}",
        "--leader-elect-lease-duration=1m",
        "--leader-elect=T",
        "--profiling=0",
    )
    election = found["leaderElection"]
    assert isinstance(election, dict)
    assert (election["leaseDuration"], election["resourceName"]) == ("1m0s", "mine")
    assert (found["enableProfiling"], found["parallelism"]) == (False, 3)


def test_flags_may_have_underscores_and_short_ones_an_equals_sign(
    sched: Commands, tmp_path: Path
) -> None:
    path = tmp_path / "out.yaml"
    found = written(sched, path, "-v=4", "--leader_elect_resource_name=mine")
    election = found["leaderElection"]
    assert isinstance(election, dict)
    assert election["resourceName"] == "mine"


def test_a_mistake_on_the_command_line_is_named_with_its_field(sched: Commands) -> None:
    done = sched("scheduler", "--leader-elect-lease-duration=1s")
    assert done.code == 2
    assert "leaderElection.leaseDuration" in done.err


def test_every_flag_that_podsched_does_not_have_gets_a_line(sched: Commands) -> None:
    done = sched("scheduler", "--kube-api-qps", "1", "--kube-api-qps=2", "--kube-api-burst=")
    assert done.code == 2
    assert [line.split(":")[1].strip() for line in done.errors] == [
        "--kube-api-qps",
        "--kube-api-burst",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--feature-gates=SchedulerAsyncPreemption=false"],
        ["--feature-gates", "Foo=true"],
        ["--emulated-version=1.20"],
        ["--vmodule=queue"],
        ["--pod-max-in-unschedulable-pods-duration=soon"],
        ["--pod-max-in-unschedulable-pods-duration=²"],
    ],
)
def test_what_cannot_be_honoured_is_a_usage_error(sched: Commands, arguments: list[str]) -> None:
    done = sched("scheduler", *arguments)
    assert (done.code, len(done.errors)) == (2, 1)
