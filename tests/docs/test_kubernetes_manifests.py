"""deploy/kubernetes against the commands, the roles and the configuration as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.cli.main import COMMANDS
from podsched.config.load import load_config

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ["base", "kube-scheduler", "monitoring", "ray"]


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def kustomization(overlay: str) -> dict[str, Any]:
    (found,) = documents(FOLDER / overlay / "kustomization.yaml")
    return found


def resources(overlay: str) -> list[dict[str, Any]]:
    """Return what ``kubectl kustomize`` would, but for what patches and generators make."""
    found = []
    for name in kustomization(overlay)["resources"]:
        path = (FOLDER / overlay / name).resolve()
        found += resources(path.name) if path.is_dir() else documents(path)
    return found


def one(overlay: str, kind: str) -> dict[str, Any]:
    (found,) = [item for item in resources(overlay) if item["kind"] == kind]
    return found


def command_line(overlay: str) -> list[str]:
    """Return the arguments of the container, with the JSON patches of the overlay applied."""
    (container,) = one(overlay, "Deployment")["spec"]["template"]["spec"]["containers"]
    arguments = list(container["args"])
    for patch in kustomization(overlay).get("patches", ()):
        for step in yaml.safe_load(patch["patch"]):
            at = step["path"].removeprefix("/spec/template/spec/containers/0/args/")
            if step["op"] == "add":
                assert at == "-"
                arguments.append(step["value"])
            else:
                assert arguments[int(at)].partition("=")[0] == step["value"].partition("=")[0]
                arguments[int(at)] = step["value"]
    return arguments


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_file_is_used(overlay: str) -> None:
    listed = kustomization(overlay)
    files = {path.name for path in (FOLDER / overlay).iterdir()} - {"kustomization.yaml"}
    generated = [f for g in listed.get("configMapGenerator", ()) for f in g["files"]]
    assert files == {*generated, *(r for r in listed["resources"] if not r.startswith(".."))}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_command_line_is_one_that_sched_takes(
    overlay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, *arguments = command_line(overlay)
    command = COMMANDS[name].load(name)
    given = {argument.partition("=")[0] for argument in arguments}
    known = {option for parameter in command.params for option in parameter.opts}
    assert given <= known
    params = command.make_context(name, arguments).params
    assert params["in_cluster"] is True
    assert params["ray_address"] == ("podsched-ray-head-svc:6379" if overlay == "ray" else "")


@pytest.mark.parametrize("overlay", ["base", "kube-scheduler"])
def test_the_configuration_is_read_without_a_warning_that_counts(overlay: str) -> None:
    (document,) = documents(FOLDER / overlay / "scheduler.yaml")
    config = load_config(document, name="scheduler.yaml", known_plugins={})
    honoured = ("clientConnection.qps:", "clientConnection.burst:")
    assert [w for w in config.warnings if not w.startswith(honoured)] == []
    lease = config.leader_election.resource_name
    names = {p.scheduler_name for p in config.profiles}
    assert (lease, names) == (
        ("podsched", {"podsched"})
        if overlay == "base"
        else ("kube-scheduler", {"default-scheduler"})
    )
    granted = [
        name
        for rule in one(overlay, "Role")["rules"]
        for name in rule.get("resourceNames", ())
        if rule["resources"] == ["leases"]
    ]
    assert lease in granted


def test_replicas_are_apart_and_drained_one_by_one() -> None:
    spec = one("base", "Deployment")["spec"]
    assert spec["replicas"] == 3
    labels = spec["template"]["metadata"]["labels"]
    (term,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"] == labels
    budget = one("base", "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["selector"]["matchLabels"]) == (1, labels)
    assert one("base", "Service")["spec"]["selector"] == labels


def test_probes_and_metrics_ask_where_the_process_listens() -> None:
    (container,) = one("base", "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--secure-port=10259" in container["args"]
    assert container["ports"] == [{"name": "https", "containerPort": 10259}]
    paths = {probe: container[probe]["httpGet"] for probe in container if probe.endswith("Probe")}
    assert {get["path"] for get in paths.values()} == {"/livez", "/readyz"}
    assert all((g["port"], g["scheme"]) == ("https", "HTTPS") for g in paths.values())
    (endpoint,) = one("monitoring", "ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("https", "https")


def test_the_container_can_change_nothing_but_its_temporary_files() -> None:
    pod = one("base", "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    context = container["securityContext"]
    assert (context["readOnlyRootFilesystem"], context["capabilities"]) == (True, {"drop": ["ALL"]})
    mounts = {m["mountPath"]: m.get("readOnly", False) for m in container["volumeMounts"]}
    assert mounts == {"/etc/podsched": True, "/tmp": False}


def test_the_account_has_kube_schedulers_roles_and_the_lease() -> None:
    bound = {r["roleRef"]["name"] for r in resources("base") if r["kind"].endswith("Binding")}
    assert bound == {"system:kube-scheduler", "system:volume-scheduler", "podsched-lease"}
    account = one("base", "ServiceAccount")["metadata"]["name"]
    subjects = [r["subjects"] for r in resources("base") if r["kind"].endswith("Binding")]
    assert json.dumps(subjects).count(f'"{account}"') == 3
