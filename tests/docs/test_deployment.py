"""docker-compose.yml and the Dockerfile against the commands as they are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.app.role_certificates import Wanted, requests_of
from podsched.cli.main import COMMANDS
from podsched.serve.store.embedded import HEARTBEAT, MEMBERS_ELECTION_TIMEOUT

PARSE = """
import json, sys
from ray.scripts.scripts import cli
for name, *arguments in json.loads(sys.argv[1]):
    cli.commands[name].make_context(name, arguments)
"""
ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
TARGETS = {"podsched", "ray", "etcd"}
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = [name for name, s in SERVICES.items() if s["image"].startswith("podsched:")]
PROCESSES = [name for name in OURS if name not in ("certs", "sched")]
ADDRESSES = {
    network["podsched"]["ipv4_address"]
    for service in SERVICES.values()
    if isinstance(network := service.get("networks"), dict)
}
RAY = [name for name, s in SERVICES.items() if s["image"].startswith("podsched-ray:")]
ETCD = [name for name, s in SERVICES.items() if s["image"].startswith("podsched-etcd:")]
OBSERVING = ("prometheus", "grafana", "jaeger")
#: Of one version, and of the contents that it had.
PINNED = re.compile(r"[a-z0-9./-]+:v?\d+\.\d+\.\d+[a-z0-9-]*@sha256:[0-9a-f]{64}")
STAGES = re.findall(r"^FROM (\S+) AS (\S+)\n(.*?)(?=^FROM|\Z)", DOCKERFILE, re.M | re.S)


def test_all_parts_are_there() -> None:
    assert (len(PROCESSES), len(RAY), len(ETCD), len(SERVICES)) == (6, 5, 3, 19)
    assert all("healthcheck" in SERVICES[name] for name in (*PROCESSES, *RAY, *ETCD))


@pytest.mark.parametrize("service", PROCESSES)
def test_a_check_that_starts_python_is_made_often_only_at_the_start(service: str) -> None:
    check = SERVICES[service]["healthcheck"]
    interval, start = (int(check[name].removesuffix("s")) for name in ("interval", "start_period"))
    assert 15 <= interval <= start


def test_each_image_is_built_once_as_its_target_and_not_pulled() -> None:
    built = [(s["image"], s["build"]["target"]) for s in SERVICES.values() if "build" in s]
    images = {SERVICES[name]["image"] for name in (*OURS, *RAY, *ETCD)}
    assert sorted(built) == sorted(
        (image, image.partition(":")[0].removeprefix("podsched-")) for image in images
    )
    assert all(SERVICES[n]["pull_policy"] == "never" for n in (*OURS, *RAY, *ETCD))


@pytest.mark.parametrize("service", PROCESSES)
def test_the_commands_are_ones_that_sched_takes(service: str) -> None:
    name, *arguments = SERVICES[service]["command"]
    command = COMMANDS[name].load(name)
    context = command.make_context(name, list(arguments))
    given = {argument.partition("=")[0] for argument in arguments}
    known = {option for parameter in command.params for option in parameter.opts}
    assert given <= known
    assert context.params["health_listen"] == "0.0.0.0:8080"
    assert "--insecure-listen" not in given


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_can_change_nothing_but_its_volumes(service: str) -> None:
    given = SERVICES[service]
    assert given["user"] == "10001:10001"
    assert given["read_only"] is True
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"podsched(-\w+)?:\d+\.\d+\.\d+", given["image"]) or PINNED.fullmatch(
        given["image"]
    )
    assert all(port.startswith("127.0.0.1:") for port in given.get("ports", []))
    assert "privileged" not in given and "cap_add" not in given


def options(service: str) -> dict[str, str]:
    """The options of a service's command."""
    parts = [argument.partition("=") for argument in SERVICES[service]["command"]]
    return {name: value for name, _, value in parts}


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_has_limits_and_a_log_that_does_not_grow_for_ever(service: str) -> None:
    given = SERVICES[service]
    assert 0 < given["cpus"] <= 2, "Docker refuses more than the host has"
    assert re.fullmatch(r"\d+[gm]", given["mem_limit"])
    assert {"max-size", "max-file"} <= set(given["logging"]["options"])


def test_api_servers_serve_kubectl_and_the_page_on_the_hosts_loopback() -> None:
    servers = [name for name in OURS if name.startswith("apiserver")]
    published = [port for name in servers for port in SERVICES[name]["ports"]]
    outside = [port.split(":")[1] for port in published]
    assert outside == ["7443", "6443", "7480", "7444", "6444", "7481"]
    for name in servers:
        listens = {
            value.rpartition(":")[2]
            for option, value in options(name).items()
            if option in ("--listen", "--kube-listen", "--web-listen")
        }
        assert {port.split(":")[2] for port in SERVICES[name]["ports"]} == listens


def test_api_servers_know_the_quota_of_etcd() -> None:
    quotas = {options(name)["--quota-backend-bytes"] for name in ETCD}
    quotas |= {options(n)["--etcd-quota-bytes"] for n in OURS if n.startswith("apiserver")}
    assert len(quotas) == 1


def test_members_of_etcd_replace_their_leader_as_fast_as_those_of_sched_chaos() -> None:
    for number in range(3):
        environment = COMPOSE["services"][f"etcd-{number}"]["environment"]
        assert environment["ETCD_HEARTBEAT_INTERVAL"] == str(HEARTBEAT)
        assert environment["ETCD_ELECTION_TIMEOUT"] == str(MEMBERS_ELECTION_TIMEOUT)


def test_each_scheduler_keeps_its_decisions_on_a_volume_of_its_own() -> None:
    schedulers = [name for name in OURS if name.startswith("scheduler")]
    kept = set()
    for name in schedulers:
        folder = options(name)["--decision-log"]
        kept |= {v for v in SERVICES[name]["volumes"] if v.endswith(f":{folder}")}
        assert f"/owned{folder} " in DOCKERFILE, "a new volume takes the directory's owner"
    assert len(kept) == len(schedulers)


def test_a_new_volume_belongs_to_the_user_as_its_directory_in_the_image_does() -> None:
    roles = re.search(r"for role in ([a-z -]+);", DOCKERFILE)
    assert roles
    owned = {f"/certs/{role}" for role in roles[1].split()}
    owned |= set(re.findall(r"(?<=/owned)/\S+", DOCKERFILE))
    for service in (*OURS, *RAY, *ETCD):
        paths = {volume.split(":")[1] for volume in SERVICES[service].get("volumes", [])}
        assert paths <= owned, service


def mounts(service: str) -> dict[str, str]:
    """Where a service sees certificates, and how."""
    parts = [volume.split(":") for volume in SERVICES[service]["volumes"]]
    return {path: (mode or ["rw"])[0] for _, path, *mode in parts if path.startswith("/certs")}


@pytest.mark.parametrize("service", [name for name in SERVICES if name != "certs"])
def test_a_service_sees_the_certificates_that_it_is_told_to_use_and_no_others(service: str) -> None:
    given = SERVICES[service]
    texts = [*given["command"], *given["environment"].values()]
    if service == "prometheus":
        texts.append((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text())
    used = {found[0] for text in texts for found in re.finditer(r"/certs/[a-z-]+", text)}
    if service in RAY:
        used |= {"/certs/scheduler"}  # by the actors that bind
    assert mounts(service) == dict.fromkeys(used, "ro")
    assert "http://" not in " ".join(texts)


def test_only_the_service_that_makes_certificates_sees_the_authoritys_key() -> None:
    assert mounts("certs") == {f"/certs/{role}": "rw" for role in ("ca", *requests_of(Wanted()))}
    assert SERVICES["certs"]["network_mode"] == "none"


def test_images_run_as_the_user_and_only_rays_has_a_shell() -> None:
    final = {name: (base, text) for base, name, text in STAGES if name in TARGETS}
    assert set(final) == TARGETS
    for base, text in final.values():
        assert "USER 10001:10001" in text
        assert "RUN" not in text.replace("RUN useradd", ""), "nothing changes after the build"
        assert base in ("scratch", "${PYTHON}", "${ETCD}")
    assert final["podsched"][0] == "scratch"
    [bare] = [text for _, name, text in STAGES if name == "bare"]
    assert all(f"/bin/{shell}" in bare for shell in ("sh", "bash", "dash"))
    for image in re.findall(r"^ARG \w+=(\S+)", DOCKERFILE, re.M):
        assert PINNED.fullmatch(image), image


def test_the_commands_are_ones_that_ray_takes() -> None:
    commands = [SERVICES[service]["command"] for service in RAY]
    # In a process of its own: Ray reads its environment once, when it is imported.
    subprocess.run([sys.executable, "-c", PARSE, json.dumps(commands)], check=True)


@pytest.mark.parametrize("service", [name for name in OURS if name.startswith("scheduler")])
def test_each_scheduler_has_a_ray_node_in_its_network_with_its_files(service: str) -> None:
    [node] = [s for s in SERVICES.values() if s.get("network_mode") == f"service:{service}"]
    assert node["pid"] == node["network_mode"], "ray.init looks for the process of a raylet"
    shared = {volume for volume in node["volumes"] if volume.endswith(":/tmp/ray")}
    assert shared and shared <= set(SERVICES[service]["volumes"])
    assert (
        node["environment"]["RAY_AUTH_TOKEN"] == SERVICES[service]["environment"]["RAY_AUTH_TOKEN"]
    )


def test_by_default_there_is_neither_ray_nor_anything_to_watch_with() -> None:
    profiles = {name: service.get("profiles", []) for name, service in SERVICES.items()}
    assert {name for name, of in profiles.items() if of == ["ray"]} == {*RAY}
    assert {name for name, of in profiles.items() if of == ["observability"]} == {*OBSERVING}
    text = (ROOT / "docker-compose.yml").read_text()
    assert "{RAY_AUTH_TOKEN:?" not in text, "Compose would demand it for every profile"
    assert set(re.findall(r"RAY_ADDRESS: (.*)", text)) == {"${RAY_AUTH_TOKEN:+172.30.31.20:6379}"}


def test_prometheus_reads_every_process_with_its_certificate() -> None:
    jobs = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text())
    targets = []
    for job in jobs["scrape_configs"]:
        assert job["scheme"] == "https"
        files = {str(Path(path).parent) for path in job["tls_config"].values()}
        assert files == {"/certs/monitoring"}
        targets += job["static_configs"][0]["targets"]
    assert set(targets) == {f"{process}:8080" for process in PROCESSES}
    read = {Path(path).name for path in jobs["rule_files"]}
    assert read <= {path.name for path in (ROOT / "deploy" / "prometheus").iterdir()}


def test_grafana_is_provisioned_with_the_board_and_what_it_reads() -> None:
    folder = ROOT / "deploy" / "grafana" / "provisioning"
    [provider] = yaml.safe_load((folder / "dashboards" / "podsched.yaml").read_text())["providers"]
    mounted = [v.split(":")[1] for v in SERVICES["grafana"]["volumes"] if "podsched.json" in v]
    assert [str(Path(path).parent) for path in mounted] == [provider["options"]["path"]]
    sources = yaml.safe_load((folder / "datasources" / "prometheus.yaml").read_text())
    hosts = {re.sub(r"^http://|:\d+$", "", s["url"]) for s in sources["datasources"]}
    assert hosts <= {*OBSERVING}


def test_what_one_service_calls_another_exists() -> None:
    for service in SERVICES.values():
        for argument in service["command"]:
            for part in argument.partition("=")[2].replace("https://", "").split(","):
                host = part.rpartition("=")[2].partition(":")[0]
                if ":" in part and host not in ("0.0.0.0", "127.0.0.1"):
                    assert host in {*SERVICES, *ADDRESSES}, argument


def test_certificates_name_every_host_and_address_that_is_called() -> None:
    named = {a.partition("=")[2] for a in SERVICES["certs"]["command"] if "--host=" in a}
    assert named == {*PROCESSES, *ETCD, *ADDRESSES}


def test_volumes_and_dependencies_exist() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        for source in (volume.partition(":")[0] for volume in service.get("volumes", [])):
            is_here = source.startswith("./") and (ROOT / source).exists()
            assert is_here or source in COMPOSE["volumes"], source


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
