"""docker-compose.yml and the Dockerfile against the commands as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.cli.main import COMMANDS

PARSE = """
import json, sys
from ray.scripts.scripts import cli
for name, *arguments in json.loads(sys.argv[1]):
    cli.commands[name].make_context(name, arguments)
"""
ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [
    name
    for name, s in SERVICES.items()
    if s["image"] == "podsched:latest" and "entrypoint" not in s
]
RAY = [name for name, service in SERVICES.items() if service.get("entrypoint") == ["ray"]]


def test_all_parts_are_there() -> None:
    assert len(SERVICES) == 14
    assert (len(OURS), len(RAY)) == (6, 5)
    assert all("healthcheck" in service for service in SERVICES.values())


@pytest.mark.parametrize("service", OURS)
def test_the_commands_are_ones_that_sched_takes(service: str) -> None:
    name, *arguments = SERVICES[service]["command"]
    command = COMMANDS[name].load(name)
    context = command.make_context(name, list(arguments))
    given = {argument.partition("=")[0] for argument in arguments}
    known = {option for parameter in command.params for option in parameter.opts}
    assert given <= known
    assert context.params["health_listen"] == "127.0.0.1:8080"


def test_the_commands_are_ones_that_ray_takes() -> None:
    commands = [SERVICES[service]["command"] for service in RAY]
    # In a process of its own: Ray reads its environment once, when it is imported.
    subprocess.run([sys.executable, "-c", PARSE, json.dumps(commands)], check=True)


@pytest.mark.parametrize("service", [name for name in OURS if name.startswith("scheduler")])
def test_each_scheduler_has_a_ray_node_in_its_network_with_its_files(service: str) -> None:
    [node] = [s for s in SERVICES.values() if s.get("network_mode") == f"service:{service}"]
    assert node["volumes"] == SERVICES[service]["volumes"]
    assert (
        node["environment"]["RAY_AUTH_TOKEN"] == SERVICES[service]["environment"]["RAY_AUTH_TOKEN"]
    )


def test_what_one_service_calls_another_exists() -> None:
    for service in SERVICES.values():
        for argument in service["command"]:
            for part in argument.partition("=")[2].replace("http://", "").split(","):
                host = part.rpartition("=")[2].partition(":")[0]
                if ":" in part and host not in ("0.0.0.0", "127.0.0.1"):
                    assert host in SERVICES, argument


def test_volumes_and_dependencies_exist() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        assert {v.partition(":")[0] for v in service.get("volumes", [])} <= set(COMPOSE["volumes"])


def test_the_image_gets_only_what_is_copied() -> None:
    lines = (ROOT / "deploy" / "Dockerfile").read_text().splitlines()
    copied = [
        word
        for line in lines
        if line.startswith("COPY") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert [f"!{name.removeprefix('./')}" for name in copied] == [
        line for line in kept if line.startswith("!")
    ]
    assert all((ROOT / name).exists() for name in copied)
