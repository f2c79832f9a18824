"""The example of users' own plugins, installed with pip and used through the commands."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from podsched.api.objects import Pod
from support.engine_world import pod
from support.eventually import eventually
from support.real_cluster import real_cluster

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "deploy" / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the example package was installed into, out of a copy of its source."""
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source)
    target = tmp_path_factory.mktemp("target")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, *offline, "--target", str(target), str(source)], check=True)
    return target


def run(*command: str, path: Path | None) -> subprocess.CompletedProcess[str]:
    """Run a module of Python's in the example's directory, ``path`` on the module path."""
    paths = [ROOT / "sched", path] if path is not None else [ROOT / "sched"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    return subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, check=False,
        cwd=EXAMPLE, env=environment,
    )  # fmt: skip


def test_the_example_passes_its_own_tests(installed: Path) -> None:
    done = run("pytest", "-q", "-p", "no:cacheprovider", path=installed)
    assert done.returncode == 0, done.stdout


def test_a_configuration_that_enables_the_plugins_is_valid_where_they_are_installed(
    installed: Path,
) -> None:
    done = run("podsched", "config", "check", "scheduler.yaml", path=installed)
    assert (done.returncode, done.stderr) == (0, "")
    without = run("podsched", "config", "check", "scheduler.yaml", path=None)
    assert without.returncode == 1
    assert 'enabled[0].name: Not found: "CpuHeadroom": no such plugin is' in without.stderr
    assert 'enabled[1].name: Not found: "TeamNodes": no such plugin is' in without.stderr


def test_simulate_runs_the_plugins(installed: Path) -> None:
    arguments = ["-f", "cluster.yaml", "--pod", "pod.yaml", "--config", "scheduler.yaml"]
    done = run("podsched", "simulate", *arguments, "-o", "json", path=installed)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["best"] == ["open-0"]
    assert result["filter"]["open-1"]["reasons"] == ["node(s) had too little CPU headroom"]
    assert result["filter"]["red-0"]["plugin"] == "TeamNodes"
    assert result["score"]["open-0"]["plugins"]["CpuHeadroom"] == 75


@pytest.mark.parametrize(
    "command",
    [
        ["config", "check", "{config}"],
        ["simulate", "-f", "cluster.yaml", "--pod", "pod.yaml", "--config", "{config}"],
        ["scheduler", "--config", "{config}"],
        ["up", "--config", "{config}"],
    ],
    ids=lambda command: command[0],
)
def test_arguments_the_plugin_refuses_are_an_error_of_the_configuration(
    installed: Path, tmp_path: Path, command: list[str]
) -> None:
    config = tmp_path / "bad.yaml"
    text = (EXAMPLE / "scheduler.yaml").read_text()
    config.write_text(text.replace("percent: 25", "percent: 250"))
    done = run("podsched", *(part.format(config=config) for part in command), path=installed)
    assert done.returncode in (1, 2)
    [_, problem] = done.stderr.splitlines()
    assert str(config) in problem
    assert problem.endswith("ValueError: percent: 250 is not a whole number from 0 to 100")


@pytest.mark.integration
async def test_a_scheduler_runs_the_plugins(installed: Path, tmp_path: Path) -> None:
    async with real_cluster(
        tmp_path, replicas=1, nodes=2, node_cpu="4", scheduler_config=EXAMPLE / "scheduler.yaml",
        environment={"PYTHONPATH": str(installed)},
    ) as real:  # fmt: skip
        # Two of them would fit on each node, but 25 % of its CPU has to stay free.
        for number in range(3):
            requests = {"requests": {"cpu": "2"}}
            spec = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
            await real.client.create(pod(f"pod-{number}", spec))
        await eventually("two bindings", lambda: real.bound("pod") == 2)

        async def explained() -> bool:
            messages = [
                condition.message
                for found in (await real.client.list("Pod")).items
                if isinstance(found, Pod)
                for condition in found.status.conditions
            ]
            return any("2 node(s) had too little CPU headroom" in m for m in messages)

        await eventually("the reason of the third", explained)
        await asyncio.sleep(0.2)
        assert real.bound("pod") == 2
