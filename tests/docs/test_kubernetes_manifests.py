"""deploy/kubernetes against the commands, the roles and the configuration as they are."""

from __future__ import annotations

import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from podsched.api.kinds import KINDS, QUEUE_KINDS
from podsched.cli.main import COMMANDS
from podsched.config.load import load_config
from support.kube_cluster import KUBECTL

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ["base", "kube-scheduler", "monitoring", "ray"]


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def kustomization(overlay: str) -> dict[str, Any]:
    (found,) = documents(FOLDER / overlay / "kustomization.yaml")
    return found


@cache
def resources(overlay: str) -> list[dict[str, Any]]:
    """What kubectl makes of an overlay."""
    made = subprocess.run(
        [KUBECTL, "kustomize", FOLDER / overlay], capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr
    return [document for document in yaml.safe_load_all(made.stdout) if document]


def one(overlay: str, kind: str) -> dict[str, Any]:
    (found,) = [item for item in resources(overlay) if item["kind"] == kind]
    return found


def pod_of(overlay: str) -> dict[str, Any]:
    """The pod of the Deployment, or the static pod."""
    if overlay == "static-pod":
        (pod,) = documents(FOLDER / overlay / "podsched.yaml")
        return dict(pod["spec"])
    return dict(one(overlay, "Deployment")["spec"]["template"]["spec"])


def container_of(overlay: str) -> dict[str, Any]:
    (container,) = pod_of(overlay)["containers"]
    return dict(container)


@pytest.mark.parametrize("overlay", [*OVERLAYS, "queues"])
def test_every_file_is_used(overlay: str) -> None:
    listed = kustomization(overlay)
    files = {path.name for path in (FOLDER / overlay).iterdir()} - {"kustomization.yaml"}
    generated = [f for g in listed.get("configMapGenerator", ()) for f in g["files"]]
    patches = [patch["path"] for patch in listed.get("patches", ()) if "path" in patch]
    own = [resource for resource in listed["resources"] if not resource.startswith("..")]
    assert files == {*generated, *patches, *own}


@pytest.mark.parametrize("overlay", [*OVERLAYS, "static-pod"])
def test_the_command_line_is_one_that_sched_takes(
    overlay: str,
) -> None:
    name, *arguments = container_of(overlay)["args"]
    command = COMMANDS[name].load(name)
    given = {argument.partition("=")[0] for argument in arguments}
    known = {option for parameter in command.params for option in parameter.opts}
    assert given <= known
    params = command.make_context(name, arguments).params
    assert params["in_cluster"] is (overlay != "static-pod")


def test_no_patch_counts_on_the_place_of_an_argument() -> None:
    for overlay in OVERLAYS:
        text = (FOLDER / overlay / "kustomization.yaml").read_text()
        assert re.findall(r"path: .*/args/(?!-$).*", text, re.M) == []


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_every_part_of_ray_has_the_token_and_each_scheduler_a_node_beside_it() -> None:
    (node,) = pod_of("ray")["initContainers"]
    scheduler, cluster = container_of("ray"), one("ray", "RayCluster")["spec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    rays = [node, *(group["template"]["spec"]["containers"][0] for group in groups)]
    token = {"secretKeyRef": {"name": "podsched-ray", "key": "auth_token"}}
    for container in (scheduler, *rays):
        assert environment(container)["RAY_AUTH_MODE"] == "token"
        assert environment(container)["RAY_AUTH_TOKEN"] == token
    assert node["restartPolicy"] == "Always", "it runs as long as the scheduler"
    assert pod_of("ray")["shareProcessNamespace"] is True, "ray.init looks for a raylet's process"
    address = environment(scheduler)["RAY_ADDRESS"]
    assert f"--address={address}" in node["args"]
    assert f"{one('ray', 'RayCluster')['metadata']['name']}-head-svc:6379" == address
    shared = {m["name"] for m in node["volumeMounts"] if m["mountPath"] == "/tmp/ray"}
    assert shared == {m["name"] for m in scheduler["volumeMounts"] if m["mountPath"] == "/tmp/ray"}
    assert {container["image"] for container in rays} == {"podsched-ray:0.1.0"}
    assert scheduler["image"] == "podsched:0.1.0"


def test_each_pod_of_ray_has_probes_of_its_own_and_no_privileges() -> None:
    cluster = one("ray", "RayCluster")["spec"]
    worker_port = cluster["workerGroupSpecs"][0]["rayStartParams"]["node-manager-port"]
    for group, port in (
        (cluster["headGroupSpec"], "6379"),
        (cluster["workerGroupSpecs"][0], worker_port),
    ):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        # KubeRay adds probes that need wget and the dashboard's agent where there are none.
        assert container["livenessProbe"] == container["readinessProbe"]
        assert f"answers('127.0.0.1:{port}', 4)" in container["livenessProbe"]["exec"]["command"][2]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_metrics_are_read_only_with_a_certificate_of_the_secrets_authority() -> None:
    for overlay in (*OVERLAYS, "static-pod"):
        assert not [a for a in container_of(overlay)["args"] if "always-allow-paths" in a]
    (ca,) = [a for a in container_of("monitoring")["args"] if a.startswith("--client-ca-file=")]
    folder = str(Path(ca.partition("=")[2]).parent)
    (mount,) = [m for m in container_of("monitoring")["volumeMounts"] if m["mountPath"] == folder]
    volumes = {v["name"]: v for v in pod_of("monitoring")["volumes"]}
    assert volumes[mount["name"]]["secret"]["secretName"] == "podsched-clients"
    (endpoint,) = one("monitoring", "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"]["cert"]["secret"]["name"] == "podsched-metrics"
    assert endpoint["tlsConfig"]["keySecret"]["name"] == "podsched-metrics"


def test_the_static_pod_needs_no_scheduler_to_start() -> None:
    (pod,) = documents(FOLDER / "static-pod" / "podsched.yaml")
    assert pod["kind"] == "Pod" and pod["spec"]["hostNetwork"] is True
    container = container_of("static-pod")
    mounted = {m["mountPath"] for m in container["volumeMounts"]}
    options = dict(a.removeprefix("--").split("=") for a in container["args"][1:])
    for file in (options["kubeconfig"], options["config"]):
        assert {file, str(Path(file).parent)} & mounted
    for probe in (container[name] for name in container if name.endswith("Probe")):
        get = probe["httpGet"]
        assert (get["host"], str(get["port"])) == (options["bind-address"], options["secure-port"])
    configs = [FOLDER / name / "scheduler.yaml" for name in ("static-pod", "kube-scheduler")]
    assert len({path.read_text() for path in configs}) == 1


@pytest.mark.parametrize("overlay", ["base", "kube-scheduler"])
def test_the_configuration_is_read_without_a_warning_that_counts(overlay: str) -> None:
    (document,) = documents(FOLDER / overlay / "scheduler.yaml")
    config = load_config(document, known_plugins={})
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
    container = container_of("base")
    assert "--secure-port=10259" in container["args"]
    assert container["ports"] == [{"name": "https", "containerPort": 10259}]
    paths = {probe: container[probe]["httpGet"] for probe in container if probe.endswith("Probe")}
    assert {get["path"] for get in paths.values()} == {"/livez", "/readyz"}
    assert all((g["port"], g["scheme"]) == ("https", "HTTPS") for g in paths.values())
    (endpoint,) = one("monitoring", "ServiceMonitor")["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("https", "https")


def test_the_container_can_change_nothing_but_its_temporary_files() -> None:
    pod, container = pod_of("base"), container_of("base")
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


def rights(role: dict[str, Any]) -> set[tuple[str, str]]:
    """Verbs and resources that a role permits."""
    return {(v, r) for rule in role["rules"] for v in rule["verbs"] for r in rule["resources"]}


def test_the_roles_permit_what_the_scheduler_asks_for_and_no_more() -> None:
    verbs = ("create", "get", "update", "watch")
    assert rights(one("base", "Role")) == {
        (verb, kind) for verb in verbs for kind in ("leases", "leasecandidates")
    }
    (role,) = [
        r
        for r in resources("queues")
        if r["metadata"]["name"] == "podsched-queues" and r["kind"] == "ClusterRole"
    ]
    with_status = ("ClusterQueue", "LocalQueue", "Cohort")
    assert rights(role) == {
        *((verb, KINDS[kind].plural) for kind in QUEUE_KINDS for verb in ("list", "watch")),
        *(("patch", f"{KINDS[kind].plural}/status") for kind in with_status),
        ("patch", "pods"),
    }
