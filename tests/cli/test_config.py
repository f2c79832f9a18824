"""``sched config``."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from support.commands import Commands

MISTAKES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 0
colour: red
percentageOfNodesToScore: 101
leaderElection: {leaseDuration: 1s, renewDeadline: 10s}
profiles:
  - schedulerName: one
    plugins:
      score:
        enabled: [{name: NodeNam, weight: 1}]
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: Best}}
extenders:
  - urlPrefix: https://extender:8888
    filterVerb: filter
    enableHTTPS: true
    tlsConfig: {caFile: /nowhere/ca.crt}
"""


def test_the_default_is_a_file_that_check_accepts(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "default.yaml"
    file.write_text(sched.ok("config", "default"))
    assert yaml.safe_load(file.read_text())["kind"] == "KubeSchedulerConfiguration"
    said = sched("config", "check", str(file))
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{file}: valid; profiles: default-scheduler\n"
    assert sched.ok("config", "check", "--print", str(file)) == file.read_text()


def test_every_mistake_is_shown_with_its_field_path(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(MISTAKES)
    done = sched("config", "check", str(file))
    assert done.code == 1
    heading, *lines = done.errors
    assert heading == f"error: invalid configuration, {len(lines)} errors:"
    paths = {line.removeprefix(f"{file}: ").split(":")[0] for line in lines}
    assert paths == {
        "colour",
        "parallelism",
        "percentageOfNodesToScore",
        "leaderElection.leaseDuration",
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[0].pluginConfig[0].args.scoringStrategy.type",
        "extenders[0].tlsConfig.caFile",
    }


def test_what_has_no_effect_is_a_warning(sched: Commands, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("parallelism: 8")
    done = sched("config", "check", str(file))
    assert done.code == 0
    [line] = done.errors
    assert line.startswith(f"warning: {file}: parallelism: has no effect")


@pytest.mark.parametrize("text", ["a: [", "- 1", "a: 1\n---\nb: 2", "\tx"])
def test_what_is_no_configuration_is_one_mistake(
    sched: Commands, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    done = sched("config", "check", str(file))
    assert done.code == 1
    assert len(done.errors) == 2


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_one_line(
    sched: Commands, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "config.yaml"
    if content is not None:
        file.write_bytes(content)
    for command in (["config", "check", str(file)], ["scheduler", "--config", str(file)]):
        done = sched(*command)
        assert done.code == 2
        [line] = done.errors
        assert line.startswith(f"error: {file}: ")


def test_names_of_profiles_are_shown_without_control_characters(
    sched: Commands, tmp_path: Path
) -> None:
    file = tmp_path / "a\x1b[31m"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        'profiles: [{schedulerName: "a\\e[2Jb"}]\n'
    )
    said = sched.ok("config", "check", str(file))
    assert "profiles: a\\x1b[2Jb" in said and "\x1b" not in said
